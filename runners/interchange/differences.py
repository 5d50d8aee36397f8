"""A tool's own figures beside those computed here from the same requests: where they differ, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NEGLIGIBLE = 1e-6
"""Relative; below it the two are the same but for rounding."""


@dataclass(frozen=True)
class Difference:
    """`statistic` is `median`, `p95` and so on, or `value` of a figure that is one number. `relative` is ours over
    theirs less one, None where theirs is 0."""

    metric: str
    statistic: str
    unit: str
    theirs: float
    ours: float
    named: str

    @property
    def relative(self) -> float | None:
        return self.ours / self.theirs - 1 if self.theirs else None

    @property
    def told(self) -> str:
        """`relative` in words, with three digits."""
        return "–" if self.relative is None else f"{100 * self.relative:+.3g}\u00a0%"

    @property
    def same(self) -> bool:
        relative = self.relative
        return self.ours == self.theirs if relative is None else abs(relative) <= NEGLIGIBLE


def differences(figures: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, Mapping[str, Any]]) -> list[Difference]:
    """Every figure that both have; those that agree are among them. `figures` are results.Figure as mappings,
    `metrics` those of a run's summary."""
    found: list[Difference] = []
    for name, figure in figures.items():
        metric = metrics.get(name)
        if metric is None:
            continue
        for statistic, theirs, ours in _pairs(figure, metric):
            if theirs is not None and ours is not None:
                found.append(Difference(name, statistic, figure["unit"], theirs, ours, figure["theirs"]))
    return found


def _pairs(figure: Mapping[str, Any], metric: Mapping[str, Any]) -> list[tuple[str, float | None, float | None]]:
    if not figure["percentiles"]:
        return [("value", figure["value"], metric["value"])]
    points = metric["percentiles"]
    tail = [(name, value, points[name]["value"]) for name, value in figure["percentiles"].items() if name in points]
    return [("median" if name == "p50" else name, theirs, ours) for name, theirs, ours in tail]
