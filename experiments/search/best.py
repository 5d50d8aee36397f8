"""The best settings for one figure: explored, then the best and its runner-up measured again. Pure.

The best of many single runs looks better than it is. So what is said of the two at the end rests on the runs that came
after the exploring, and on those alone. A trial that breaks the SLO, or has no valid run, can't win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.analysis.compare import COMPARED, difference_row, noise_floors, verdict_of
from experiments.analysis.intervals import mean_interval
from experiments.analysis.model_error import model_interval
from experiments.search.explore import Explored, Exploring, explored
from experiments.search.seen import Settings, Step, TrialSeen, Wanted
from runners.display import settings_label
from runners.spec import SettingsSearch


@dataclass(frozen=True)
class BestCourse:
    search: SettingsSearch
    cell: Settings
    exploring: Exploring

    @property
    def metric(self) -> str:
        return self.search.optimize

    @cached_property
    def ranked(self) -> list[Explored]:
        """Those that may win, the best first; one that was confirmed by its confirming runs alone."""
        sign = 1.0 if COMPARED[self.metric][1] else -1.0
        judged = [self._judged(one) for one in self.exploring.found]
        holding = [one for one in judged if one.holds and one.values]
        return sorted(holding, key=lambda one: -sign * one.values[0] if one.values else 0.0)

    def _judged(self, found: Explored) -> Explored:
        return (
            explored(found.trial, (self.metric,), self._later(found.trial)) if self._confirmed(found.trial) else found
        )

    def _later(self, trial: TrialSeen) -> list[Any]:
        return [run for run in trial.runs if run.repeat >= self.search.repeats]

    def _confirmed(self, trial: TrialSeen) -> bool:
        return len(self._later(trial)) >= self.search.confirm and not trial.is_open

    @cached_property
    def step(self) -> Step:
        tried = self.exploring.step
        if not tried.done:
            return tried
        if any(trial.is_open for trial in self.exploring.trials):
            return Step()
        first = [one.trial for one in self.ranked[:2]]
        unconfirmed = [trial for trial in first if not self._confirmed(trial)]
        if unconfirmed:
            # both at once, so that their repeats are paired
            return Step(tuple(Wanted(trial.settings, self.search.repeats + self.search.confirm) for trial in first))
        return Step(done=tried.done if first else f"{tried.done}; none of them is valid and within the objective")

    @property
    def rivals(self) -> list[Explored]:
        """The best and its runner-up, once both are confirmed."""
        return self.ranked[:2] if all(self._confirmed(one.trial) for one in self.ranked[:2]) else []

    def as_json(self) -> dict[str, Any]:
        rivals = self.rivals
        return {
            "settings": dict(self.cell),
            "said": self.said,
            "metric": self.metric,
            "best": self.figure(rivals[0]) if rivals else None,
            "runner_up": self.figure(rivals[1]) if len(rivals) > 1 else None,
            "difference": self._difference(rivals),
            "tried": [self._tried_json(one) for one in self.exploring.found],
        }

    @property
    def said(self) -> str:
        rivals = self.rivals
        if not self.ranked:
            return "no settings tried so far are valid and within the objective"
        if not rivals:
            return f"so far {self._name(self.ranked[0])} leads, which is not confirmed yet"
        row, best = self._difference(rivals), self._name(rivals[0])
        if row is None:
            return f"{best} is the best"
        if row["verdict"] == "better":
            return f"{best} is the best: better than its runner-up, {self._name(rivals[1])}"
        return f"{best} leads, but over its runner-up, {self._name(rivals[1])}: {row['verdict']}"

    def _name(self, one: Explored) -> str:
        return settings_label({path: one.trial.settings[path] for path in self.search.space})

    def figure(self, one: Explored) -> dict[str, Any]:
        """The mean of a confirmed trial with its interval, by its confirming runs alone."""
        trial = one.trial.result(self._later(one.trial))
        values = trial.values(self.metric)
        if trial.modelled:
            interval = model_interval(self.metric, sum(values) / len(values), len(values), trial.model_errors)
        else:
            interval = mean_interval(values)
        return {
            "trial": one.trial.id,
            "settings": dict(one.trial.settings),
            "mean": interval.estimate,
            "low": interval.low,
            "high": interval.high,
            "n": interval.n,
            "method": interval.method,
            "modelled": trial.modelled,
        }

    def _difference(self, rivals: list[Explored]) -> Mapping[str, Any] | None:
        """What the best gains over its runner-up, with interval, noise floor and verdict."""
        if len(rivals) < 2:
            return None
        best, other = (one.trial.result(self._later(one.trial)) for one in rivals)
        row = difference_row(other, best, self.metric, noise_floors([best, other], [self.metric]))
        return None if row is None else {**row, "verdict": verdict_of(row)}

    @staticmethod
    def _tried_json(one: Explored) -> dict[str, Any]:
        values = list(one.values) if one.values is not None else None
        return {
            "trial": one.trial.id,
            "settings": dict(one.trial.settings),
            "values": values,
            "n": one.n,
            "holds": one.holds,
            "why": one.why,
        }
