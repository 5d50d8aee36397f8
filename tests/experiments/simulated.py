"""Systems that are formulas, and a laboratory that runs what a planner wants on them: no server, no clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.analysis.compare import RunResult
from experiments.search.missing import missing_runs
from experiments.search.planner import Planned, plan_searches
from experiments.search.seen import Allowed, Asked, RunSeen, Settings, TrialSeen
from runners.spec import ExperimentSpec

MOST_STEPS = 2_000


@dataclass(frozen=True)
class Answer:
    """What one run of a system gives."""

    values: Mapping[str, float] = field(default_factory=dict)
    slo_met: bool | None = True
    success: float = 1.0
    reasons: tuple[str, ...] = ()
    succeeded: bool = True
    modelled: bool = False


System = Callable[[Settings, random.Random], Answer]
WORKLOAD = {"kind": "synthetic", "num_requests": 64}


def spec_with(**changes: Any) -> ExperimentSpec:
    closed = {**WORKLOAD, "arrival": {"kind": "closed", "max_concurrency": 1}}
    base = {"name": "x", "model": "m", "nodes": {}, "workload": closed, "slo": {"ttft_s": 1.0}, "seed": 3}
    return ExperimentSpec.model_validate({**base, **changes})


def load_spec(low: float = 1, high: float = 128, *, rate: bool = False, **search: Any) -> ExperimentSpec:
    path = "workload.arrival.request_rate" if rate else "workload.arrival.max_concurrency"
    arrival = {"kind": "open", "request_rate": 1.0} if rate else {"kind": "closed", "max_concurrency": 1}
    searched = {"maximize": path, "under": "slo", "low": low, "high": high, **search}
    return spec_with(search=searched, workload={**WORKLOAD, "arrival": arrival})


@dataclass
class Laboratory:
    """Runs the steps of one experiment's planner, one run at a time in an order drawn from `seed`. After every single
    run the planner is asked again with nothing but the trials, as after a crash."""

    spec: ExperimentSpec
    system: System
    cells: Sequence[Settings] = ({},)
    allowed: Allowed = lambda settings: True
    seed: int = 0
    trials: list[TrialSeen] = field(default_factory=list)
    runs: int = 0

    def planned(self) -> Planned:
        return plan_searches(self.spec, Asked(self.cells, tuple(self.trials), self.spec.seed, self.allowed))

    def run(self) -> Planned:
        """Until nothing more is wanted."""
        chance = random.Random(self.seed)
        for _ in range(MOST_STEPS):
            planned = self.planned()
            self._add(planned)
            waiting = [(place, run.repeat) for place, one in enumerate(self.trials) for run in one.runs if run.is_open]
            if not waiting:
                assert planned.step.done, "it waits for nothing"
                return planned
            self._end(*chance.choice(waiting), chance)
        raise AssertionError(f"no end after {MOST_STEPS} runs")

    def _add(self, planned: Planned) -> None:
        for one in missing_runs(planned.step, self.trials):
            place = next((place for place, trial in enumerate(self.trials) if trial.id == one.trial), None)
            if place is None:
                place = next((at for at, trial in enumerate(self.trials) if trial.settings == one.settings), None)
            if place is None:
                place = len(self.trials)
                self.trials.append(TrialSeen(place + 1, place, one.settings))
            trial = self.trials[place]
            self.trials[place] = replace(trial, runs=(*trial.runs, RunSeen(one.repeat, None)))

    def _end(self, place: int, repeat: int, chance: random.Random) -> None:
        self.runs += 1
        trial = self.trials[place]
        answer = self.system(trial.settings, chance)
        result = RunResult(
            id=self.runs,
            repeat=repeat,
            node="bench",
            modelled=answer.modelled,
            valid=answer.succeeded and not answer.reasons,
            reasons=answer.reasons,
            output_tokens=100,
            values=answer.values,
        )
        done = RunSeen(repeat, result, answer.succeeded, answer.slo_met, answer.success)
        runs = tuple(done if run.repeat == repeat else run for run in trial.runs)
        self.trials[place] = replace(trial, runs=runs)
