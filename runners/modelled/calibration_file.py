"""The fitted coefficients as they are stored, and how far each may be trusted.

One JSON file holds what a fit gave, what it was fitted on, and the errors of its predictions on rows that it had not
seen (whole chip x model x precision families left out), by scope: an engine, family and precision, or only an engine,
or all. What was fitted on few rows is told by a wider scope.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from runners.modelled.coefficients import Key
from runners.modelled.rows import Quantity

COST_MODEL = "calibrated-2"
OWN_FILE = Path(__file__).parent / "calibration" / "coefficients.json"
LEAST_ROWS = 12
"""A scope with fewer rows has no error of its own, but that of a wider one."""
BAND_ROWS = 150
"""A scope with fewer rows has the band of a wider one: its rows are of too few families to speak for others."""


class CalibrationError(ValueError):
    """The file is not a calibration of this cost model; trying again would change nothing."""

    retry = False


@dataclass(frozen=True, slots=True)
class ScopeError:
    """How far predictions were off on rows not fitted on: absolute errors are shares of the measured figure, `bias` is
    the median of ln(predicted / measured); `low` and `high` bound ln(measured / predicted) of 90 % of rows."""

    scope: str
    n: int
    median: float
    p90: float
    bias: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """The share of `n` rows that lay within their band, where neither the fit nor the band had seen their family."""

    n: int
    share: float


@dataclass(frozen=True)
class Calibration:
    """Parameters of steps and of first tokens, and of power, as logarithms of factors; errors by scope, and how often
    the bands hold by quantity ("all": over all of them)."""

    steps: Mapping[Key, float]
    first_token: Mapping[Key, float]
    power: Mapping[str, float]
    errors: Mapping[str, ScopeError] = field(default_factory=dict)
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def error_of(self, quantity: Quantity, engine: str, family: str, precision: str) -> ScopeError | None:
        """The error of the narrowest scope with enough rows, with the band of the narrowest that has enough for one, or
        of all; None where the calibration knows no error at all."""
        errors = [
            self.errors[scope] for scope in scopes_of(quantity, engine, family, precision) if scope in self.errors
        ]
        known = next((error for error in errors if error.n >= LEAST_ROWS), None)
        if known is None:
            return None
        band = next((error for error in errors if error.n >= BAND_ROWS), errors[-1])
        return replace(known, low=band.low, high=band.high)

    def to_json(self) -> str:
        return json.dumps(
            {
                "cost_model": COST_MODEL,
                "provenance": dict(self.provenance),
                "errors": [asdict(error) for error in self.errors.values()],
                "coverage": {name: asdict(found) for name, found in self.coverage.items()},
                "steps": _nest(self.steps),
                "first_token": _nest(self.first_token),
                "power": {name: round(value, 6) for name, value in self.power.items()},
            },
            indent=1,
        )

    @classmethod
    def load(cls, path: Path) -> Calibration:
        """Raises CalibrationError that names the file and what is wrong."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["cost_model"] != COST_MODEL:
                raise CalibrationError(f"{path.name}: cost_model is {data['cost_model']!r}; allowed: {COST_MODEL!r}")
            errors = {item["scope"]: ScopeError(**item) for item in data["errors"]}
            coverage = {name: Coverage(**item) for name, item in data["coverage"].items()}
            return cls(_flatten(data["steps"]), _flatten(data["first_token"]), data["power"], errors, coverage,
                       data["provenance"])  # fmt: skip
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise CalibrationError(f"{path.name}: is not a calibration: {error!r}") from error


def _nest(parameters: Mapping[Key, float]) -> dict[str, dict[str, float]]:
    nested: dict[str, dict[str, float]] = {}
    for (name, group), value in sorted(parameters.items()):
        nested.setdefault(name, {})[group] = round(value, 6)
    return nested


def _flatten(nested: Mapping[str, Mapping[str, float]]) -> dict[Key, float]:
    return {(name, group): value for name, groups in nested.items() for group, value in groups.items()}


def scopes_of(quantity: Quantity, engine: str, family: str, precision: str) -> Iterator[str]:
    """Scopes of a setting, the narrowest first."""
    yield f"{quantity}: {engine} x {family} x {precision}"
    yield f"{quantity}: {engine} x {family}"
    yield f"{quantity}: {engine}"
    yield f"{quantity}: all engines"


@cache
def own_calibration() -> Calibration:
    """That of the project."""
    return Calibration.load(OWN_FILE)
