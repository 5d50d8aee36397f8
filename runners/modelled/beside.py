"""What the cost model says of a run that a machine has measured: `python -m runners.modelled.beside --cpu-limit-s N`.

A BesideRequest as JSON on stdin, a Prediction as JSON on stdout. The run's own spec goes through the scheduler on a
virtual clock, timed by a cost model of the machine: its measured ceilings, and coefficients fitted on steps of runs
that had ended before. Nothing of the run itself is known here but its settings. The process is the least urgent of its
machine, and ends by the kernel's hand when it has computed for that long.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from runners.chips import ChipRecord
from runners.events import AnyEvent, RequestRecord, Step
from runners.load import virtual
from runners.modelled.capacity import KvPool
from runners.modelled.clock import VirtualClock
from runners.modelled.cost import CostModel, CostModelError
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.fleet import one_engine
from runners.modelled.local import LocalChipError, LocalFit, chip_of, fit_local, local_tuning
from runners.modelled.local_steps import MeasuredSteps
from runners.modelled.shape import ModelShape, ShapeError
from runners.request_figures import tpot_s, ttft_s
from runners.spec import RunSpec

NICENESS = 19


class EarlierRun(BaseModel):
    """Steps of a run that had ended before, in their order."""

    model_config = ConfigDict(frozen=True)
    shape: dict[str, Any]
    weights: str
    steps: tuple[Step, ...]


class BesideRequest(BaseModel):
    """`facts` and `ceilings` are the node's, `num_blocks` are the KV blocks that its engine had, `intake_s` is what its
    server takes of a request outside of steps (runners.modelled.front)."""

    model_config = ConfigDict(frozen=True)
    spec: RunSpec
    facts: dict[str, Any]
    ceilings: dict[str, Any]
    num_blocks: int
    intake_s: float = 0.0
    earlier: tuple[EarlierRun, ...] = ()


class Figure(BaseModel):
    """`low` and `high` bound 90 % of what is measured, as far as steps left out of the fit tell; null: nobody knows."""

    predicted: float
    low: float | None = None
    high: float | None = None
    unit: str


class Prediction(BaseModel):
    """`basis` says in words what the cost model rests on."""

    state: Literal["calibrated", "uncalibrated"]
    basis: str
    metrics: dict[str, Figure]


class NotPredictable(Exception):
    """The message says why; trying again would change nothing."""

    retry = False


def predict_beside(asked: BesideRequest) -> Prediction:
    """Raises NotPredictable."""
    try:
        chip = chip_of(asked.ceilings, asked.facts)
        fit = _fit(chip, asked.earlier)
        seen = _simulate(asked, chip, fit)
    except (LocalChipError, CostModelError, ShapeError, virtual.TooLong) as error:
        raise NotPredictable(str(error)) from error
    if not seen.ttft_s:
        raise NotPredictable("no request of the run came to an answer in the model")
    figures = {
        "output_throughput": (seen.output_tokens / seen.window_s, "tok/s", True),
        "tpot": (float(np.median(seen.tpot_s)) if seen.tpot_s else None, "s", False),
        "ttft": (float(np.median(seen.ttft_s)), "s", False),
    }
    return Prediction(
        state="calibrated" if fit else "uncalibrated",
        basis=_basis(fit),
        metrics={
            name: _figure(value, unit, fit, rate=rate)
            for name, (value, unit, rate) in figures.items()
            if value is not None
        },
    )


def _fit(chip: ChipRecord, earlier: Iterable[EarlierRun]) -> LocalFit | None:
    runs = [MeasuredSteps(ModelShape.from_mapping(run.shape), run.weights, run.steps) for run in earlier if run.steps]
    return fit_local(chip, runs) if runs else None


def _basis(fit: LocalFit | None) -> str:
    if fit is None:
        return "the machine's measured ceilings and the engine as described; no earlier run of this node to fit on"
    runs = f"{fit.runs} earlier valid run{'s' * (fit.runs != 1)}"
    return f"the machine's measured ceilings and {fit.steps:,} steps of {runs} of this node"


class _Seen:
    """What the prediction is made from; a sink that forgets all else, so that its size does not grow with steps."""

    def __init__(self) -> None:
        self.ttft_s: list[float] = []
        self.tpot_s: list[float] = []
        self.output_tokens = 0
        self.window_s = 0.0

    def __call__(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            if isinstance(event, RequestRecord) and event.phase == "measured" and event.status == "ok":
                self._take(event)

    def _take(self, record: RequestRecord) -> None:
        self.output_tokens += record.output_tokens or 0
        for values, value in ((self.ttft_s, ttft_s(record)), (self.tpot_s, tpot_s(record))):
            if value is not None:
                values.append(value)


def _simulate(asked: BesideRequest, chip: ChipRecord, fit: LocalFit | None) -> _Seen:
    spec, clock, seen = asked.spec, VirtualClock(), _Seen()
    cost = CostModel(chip, ModelShape.from_mapping(spec.model.shape), spec.engine.weights)
    cost.tuning = local_tuning(chip, spec.engine.weights, fit)
    block_size = spec.engine.block_size
    pool = KvPool(
        num_blocks=asked.num_blocks,
        block_bytes=block_size * cost.shape.kv_bytes_per_token,
        weight_bytes=cost.resident_bytes,
        usable_bytes=int(chip.memory.capacity_bytes or 0),
        max_sequence_tokens=asked.num_blocks * block_size,
    )
    engine = build_engine(ModelledExecutor(cost, pool, block_size, clock), spec.engine)
    result = virtual.run(spec, one_engine(engine, clock, asked.intake_s), seen)
    assert result.window_start_s is not None and result.window_end_s is not None
    seen.window_s = result.window_end_s - result.window_start_s
    return seen


def _figure(value: float, unit: str, fit: LocalFit | None, *, rate: bool) -> Figure:
    """A time's band is that of the steps that it is made of; a rate's is its inverse."""
    if fit is None:
        return Figure(predicted=value, unit=unit)
    low, high = math.exp(fit.error.low), math.exp(fit.error.high)
    if rate:
        low, high = 1 / high, 1 / low
    return Figure(predicted=value, low=value * low, high=value * high, unit=unit)


def answer(text: str) -> Mapping[str, Any]:
    """A request's answer: a Prediction, or `{"why_not": …}`."""
    try:
        return predict_beside(BesideRequest.model_validate_json(text)).model_dump(mode="json")
    except NotPredictable as error:
        return {"why_not": str(error)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="runners.modelled.beside")
    parser.add_argument("--cpu-limit-s", type=int, required=True)
    limit_s = parser.parse_args().cpu_limit_s
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
    print(json.dumps(answer(sys.stdin.read())))


if __name__ == "__main__":
    main()
