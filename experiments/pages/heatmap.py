"""Which plane of an experiment's matrix its heat map shows, and which metric: as the address says, or to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.analysis.compare import COMPARED
from experiments.analysis.speculative import Bands
from experiments.figures.heatmap import Plane, heat_figure
from runners.display import setting_value

DEFAULT_METRIC = "output_throughput"


@dataclass(frozen=True)
class Held:
    """An axis that is neither across nor up, and the value at which the map shows it."""

    path: str
    name: str
    value: str
    choices: Sequence[str]


@dataclass(frozen=True)
class HeatMap:
    axes: Sequence[str]
    metrics: Sequence[str]
    x: str
    y: str
    metric: str
    held: Sequence[Held]
    figure: dict[str, Any]


def heat_map(
    matrix: Mapping[str, Sequence[Any]],
    trials: Sequence[Mapping[str, Any]],
    asked: Mapping[str, str],
    bands: Bands | None = None,
) -> HeatMap | None:
    """The map for `x`, `y`, `metric` and `at.<path>` of the address; None where no two axes have several values.
    `bands` are by trial those of speculative ones."""
    bands = bands or {}
    axes = sorted((path for path, values in matrix.items() if len(values) > 1), key=lambda path: -len(matrix[path]))
    measured = [name for name in COMPARED if any(trial["metrics"].get(name) for trial in trials) or _is_in(name, bands)]
    if len(axes) < 2 or not measured:
        return None
    x = _choose(asked.get("x", ""), axes, axes[0])
    others = [path for path in axes if path != x]
    y = _choose(asked.get("y", ""), others, others[0])
    metric = _choose(asked.get("metric", ""), measured, DEFAULT_METRIC if DEFAULT_METRIC in measured else measured[0])
    held, values = [], {}
    for path, found in matrix.items():
        if path in (x, y):
            continue
        by_text = {setting_value(value): value for value in found}
        text = _choose(asked.get(f"at.{path}", ""), list(by_text), next(iter(by_text)))
        values[path] = by_text[text]
        if len(found) > 1:
            held.append(Held(path, f"at.{path}", text, list(by_text)))
    plane = Plane(x, y, matrix[x], matrix[y], values)
    return HeatMap(axes, measured, x, y, metric, held, heat_figure(trials, plane, metric, bands))


def _is_in(metric: str, bands: Bands) -> bool:
    return any(metric in of_trial for of_trial in bands.values())


def _choose(wanted: str, allowed: Sequence[str], default: str) -> str:
    return wanted if wanted in allowed else default
