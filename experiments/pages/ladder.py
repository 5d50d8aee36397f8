"""Which of an experiment's ladders its page draws, and in which metric: as the address says, or to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.analysis.waterfall import Waterfall
from experiments.figures.waterfall import waterfall_figure
from experiments.ladders import Ladder
from runners.display import settings_label

DEFAULT_METRIC = "output_throughput"


@dataclass(frozen=True)
class LadderPanel:
    """`which` is the place of the ladder that is shown among `choices`."""

    metric: str
    metrics: Sequence[str]
    which: int
    choices: Sequence[str]
    waterfall: Waterfall
    largest: float | None
    figure: dict[str, Any]


def ladder_panel(ladders: Sequence[Ladder], asked: Mapping[str, str]) -> LadderPanel | None:
    """The panel for `step_metric` and `ladder` of the address; None where there is no ladder with a figure."""
    metrics = list(dict.fromkeys(name for one in ladders for name in one.metrics))
    if not metrics:
        return None
    wanted, place = asked.get("step_metric", ""), asked.get("ladder", "")
    metric = wanted if wanted in metrics else DEFAULT_METRIC if DEFAULT_METRIC in metrics else metrics[0]
    which = int(place) if place.isascii() and place.isdecimal() and len(place) < 4 and int(place) < len(ladders) else 0
    found = ladders[which].waterfall(metric)
    means = [rung.mean for rung in found.rungs if rung.mean is not None]
    return LadderPanel(
        metric=metric,
        metrics=metrics,
        which=which,
        choices=[settings_label(one.settings) for one in ladders] if len(ladders) > 1 else [],
        waterfall=found,
        largest=max(means, default=None),
        figure=waterfall_figure(found),
    )
