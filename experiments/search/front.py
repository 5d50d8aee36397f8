"""The settings that no other beats in two figures at once. Pure: the front is drawn by experiments.analysis.pareto, of
valid trials that met the SLO alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.analysis.pareto import pareto_front
from experiments.search.explore import Exploring
from experiments.search.seen import Settings, Step
from runners.spec import ParetoSearch


@dataclass(frozen=True)
class FrontCourse:
    search: ParetoSearch
    cell: Settings
    exploring: Exploring

    @property
    def step(self) -> Step:
        return self.exploring.step

    @cached_property
    def front(self) -> list[int]:
        """Ids of its trials, in order of the first figure."""
        holding = [one.trial.result() for one in self.exploring.found if one.holds]
        return pareto_front(holding, *self.search.pareto.metrics)

    @property
    def said(self) -> str:
        return f"{len(self.front)} of {len(self.exploring.trials)} settings tried are on the front"

    def as_json(self) -> dict[str, Any]:
        return {
            "settings": dict(self.cell),
            "said": self.said,
            "metrics": list(self.search.pareto.metrics),
            "front": self.front,
            "tried": [
                {
                    "trial": one.trial.id,
                    "settings": dict(one.trial.settings),
                    "values": list(one.values) if one.values is not None else None,
                    "n": one.n,
                    "holds": one.holds,
                    "why": one.why,
                }
                for one in self.exploring.found
            ],
        }
