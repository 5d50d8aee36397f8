"""The cost model against this machine: `python -m runners.modelled.validate --node local`.

Six runs of the lab's small model are measured through the real runtime, 3 loads x 2 precisions. Steps of half of them
calibrate the coefficients of the built-in engine here, and their requests what its server takes outside of steps; the
other half is predicted by a modelled run of the same spec, and the error of each metric is printed. The runs take some
minutes, and other work on the machine spoils them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runners import models
from runners.chips import ChipRecord
from runners.events import EVENT, AnyEvent, Report, RequestRecord, Step
from runners.load import virtual
from runners.modelled.capacity import plan_kv_pool
from runners.modelled.clock import VirtualClock
from runners.modelled.cost import CostModel
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.fleet import one_engine
from runners.modelled.front import intake_of
from runners.modelled.local import LocalFit, chip_of, fit_local, local_tuning
from runners.modelled.local_steps import MeasuredSteps
from runners.modelled.shape import ModelShape
from runners.request_figures import tpot_s, ttft_s
from runners.spec import ClosedArrival, RunSpec

MODEL = "smollm2-135m-instruct"
LOADS = (1, 4, 12)
PRECISIONS = ("bf16", "int8")
RUN_LIMIT_S = 300.0
Metrics = dict[str, float]


@dataclass(frozen=True)
class Measured:
    spec: RunSpec
    metrics: Metrics
    steps: list[Step]
    requests: list[RequestRecord]


def make_spec(load: int, precision: str, num_requests: int) -> RunSpec:
    entry = models.get(MODEL)
    return RunSpec.model_validate({
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 11, "settings": {},
        "model": {"name": entry.name, "sha256": entry.sha256, "shape": dict(entry.shape)}, "chip_id": "any",
        "engine": {"weights": precision}, "placement": {}, "slo": {}, "cost": {},
        "workload": {
            "kind": "synthetic",
            "input_len": {"dist": "fixed", "tokens": 128},
            "output_len": {"dist": "fixed", "tokens": 48},
            "arrival": {"kind": "closed", "max_concurrency": load},
            "num_requests": max(num_requests, 2 * load),
            "warmup": {"num_requests": max(load, 2)},
        },
        "time_limit_s": RUN_LIMIT_S, "code_revision": "validate",
    })  # fmt: skip


def measure(spec: RunSpec) -> Measured:
    """One run in a process of its own. Raises RuntimeError with the run's own words where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        spec_file, spool = Path(folder) / "spec.json", Path(folder) / "1-1.jsonl"
        spec_file.write_text(spec.model_dump_json(), encoding="utf-8")
        command = [sys.executable, "-m", "runners.execute", "--spec", str(spec_file), "--spool", str(spool),
                   "--models", str(models.default_models_dir())]  # fmt: skip
        subprocess.run(command, check=True, timeout=2 * RUN_LIMIT_S, start_new_session=True)
        events = [EVENT.validate_json(line) for line in spool.read_bytes().splitlines()]
    reports = [event for event in events if isinstance(event, Report)]
    if not reports or reports[-1].outcome != "succeeded":
        raise RuntimeError(f"the run failed: {reports[-1].error if reports else 'no report'}")
    return read_run(spec, events, reports[-1])


def read_run(spec: RunSpec, events: Sequence[AnyEvent], report: Report) -> Measured:
    requests = [event for event in events if isinstance(event, RequestRecord) and event.phase == "measured"]
    return Measured(spec, metrics_of(events, report), [event for event in events if isinstance(event, Step)], requests)


def metrics_of(events: Sequence[AnyEvent], report: Report) -> Metrics:
    """Output tokens/s in the window, and medians of TPOT and TTFT in seconds."""
    records = [e for e in events if isinstance(e, RequestRecord) and e.phase == "measured" and e.status == "ok"]
    start_s, end_s = report.window_start_s, report.window_end_s
    assert start_s is not None and end_s is not None
    tokens = sum(sum(record.token_counts) for record in records)
    tpots = [value for record in records if (value := tpot_s(record)) is not None]
    ttfts = [value for record in records if (value := ttft_s(record)) is not None]
    return {
        "throughput": tokens / (end_s - start_s),
        "tpot": float(np.median(tpots)),
        "ttft_p50": float(np.median(ttfts)),
    }


def local_chip() -> ChipRecord:
    """This machine as a chip: what it can do at most, as its agent would measure it now."""
    ceilings, facts = (_tell(f"runners.agent.{module}") for module in ("ceilings", "detect"))
    return chip_of(ceilings, facts)


def _tell(module: str) -> dict[str, Any]:
    """What a program of the agent prints. Each is a process of its own, as they load torch and this one must not."""
    found = subprocess.run([sys.executable, "-m", module], check=True, capture_output=True)
    return dict(json.loads(found.stdout))


def steps_of(run: Measured) -> MeasuredSteps:
    return MeasuredSteps(ModelShape.from_mapping(run.spec.model.shape), run.spec.engine.weights, run.steps)


def predict(chip: ChipRecord, spec: RunSpec, fit: LocalFit, intake_s: float) -> Metrics:
    """The same spec on a modelled node of those coefficients."""
    cost = CostModel(chip, ModelShape.from_mapping(spec.model.shape), spec.engine.weights)
    cost.tuning = local_tuning(chip, spec.engine.weights, fit)
    clock = VirtualClock()
    pool = plan_kv_pool(cost, spec.engine.block_size, spec.engine.max_num_seqs)
    executor = ModelledExecutor(cost, pool, spec.engine.block_size, clock)
    server = one_engine(build_engine(executor, spec.engine), clock, intake_s)
    events: list[AnyEvent] = []
    result = virtual.run(spec, server, events.extend)
    report = Report(outcome="succeeded", window_start_s=result.window_start_s, window_end_s=result.window_end_s,
                    client=result.client, facts={}, modelled=True)  # fmt: skip
    return metrics_of(events, report)


def validate(num_requests: int) -> list[dict[str, Any]]:
    """Measures all, calibrates on every other one, and gives the errors of the rest."""
    chip = local_chip()
    settings = [(load, precision) for precision in PRECISIONS for load in LOADS]
    return compare(chip, [measure(make_spec(load, precision, num_requests)) for load, precision in settings])


def compare(chip: ChipRecord, runs: Sequence[Measured]) -> list[dict[str, Any]]:
    """Calibrates on the first, third, … of the runs, and gives predictions of the others with their errors."""
    known = runs[::2]
    fit = fit_local(chip, [steps_of(run) for run in known])
    intake_s = min(intake_of(run.requests) for run in known)
    lines = []
    for run in runs[1::2]:
        predicted = predict(chip, run.spec, fit, intake_s)
        errors = {name: predicted[name] / value - 1 for name, value in run.metrics.items()}
        arrival = run.spec.workload.arrival
        assert isinstance(arrival, ClosedArrival)
        lines.append({"load": arrival.max_concurrency, "weights": run.spec.engine.weights, "measured": run.metrics,
                      "predicted": predicted, "error": errors})  # fmt: skip
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="runners.modelled.validate", description=__doc__)
    parser.add_argument("--node", choices=["local"], required=True)
    parser.add_argument("--requests", type=int, default=36, help="measured requests per run")
    options = parser.parse_args(arguments)
    lines = validate(options.requests)
    for line in lines:
        print(json.dumps(line))
    for name in ("throughput", "tpot", "ttft_p50"):
        worst = max(abs(line["error"][name]) for line in lines)
        typical = float(np.median([abs(line["error"][name]) for line in lines]))
        print(f"{name:<12} median error {typical:.1%}, worst {worst:.1%}")


if __name__ == "__main__":
    main()
