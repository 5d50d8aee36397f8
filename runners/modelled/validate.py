"""The cost model against this machine: `python -m runners.modelled.validate --node local`.

Six runs of the lab's small model are measured through the real runtime, 3 loads x 2 precisions. Step times of half of
them calibrate the coefficients of the built-in engine here; the other half is predicted by a modelled run of the same
spec, and the error of each metric is printed. The runs take some minutes, and other work on the machine spoils them.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from runners import models
from runners.chips import ChipRecord, load_catalog
from runners.events import EVENT, AnyEvent, Report, RequestRecord, Step
from runners.load import virtual
from runners.metrics import tpot_s, ttft_s
from runners.modelled.capacity import plan_kv_pool
from runners.modelled.clock import VirtualClock
from runners.modelled.coefficients import BY_NAME, Peaks, make_speeds
from runners.modelled.cost import CostModel
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.formats import FORMATS
from runners.modelled.parallel import Parallel
from runners.modelled.profiles import overrides_of
from runners.modelled.shape import ModelShape
from runners.modelled.tuning import Tuning
from runners.modelled.work import Counts, Splitter, price, stack
from runners.spec import RunSpec

MODEL = "smollm2-135m-instruct"
LOADS = (1, 4, 12)
PRECISIONS = ("bf16", "int8")
FITTED = ("memory", "gemm", "attention", "kv", "step_s", "layer_s", "sequence_s", "token_s")
SPREAD = 1.5
RUN_LIMIT_S = 300.0
Metrics = dict[str, float]


@dataclass(frozen=True)
class Measured:
    spec: RunSpec
    metrics: Metrics
    steps: list[Step]


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
    return Measured(spec, metrics_of(events, reports[-1]), [event for event in events if isinstance(event, Step)])


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
    """This machine as a chip: what a large copy and a large product reach here now, as one round figure each."""
    (record,) = [chip for chip in load_catalog() if chip.chip_id == "generic-2vcpu"]
    size = 1024
    left = np.ones((size, size), np.float32)
    product_s = min(_time(lambda: left @ left) for _ in range(5))
    large = np.ones(32_000_000, np.float32)
    copy_s = min(_time(large.copy) for _ in range(3))
    memory = record.memory.model_copy(update={"capacity_bytes": 8_000_000_000,
                                              "bandwidth_bytes_per_s": 2 * large.nbytes / copy_s})  # fmt: skip
    rate = 2 * size**3 / product_s / 1e12
    return record.model_copy(update={"memory": memory, "dense_tflops": {"bf16": rate, "int8": rate}})


def _time(work: Any) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def calibrate_locally(chip: ChipRecord, runs: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Coefficients by precision. Efficiencies of the matrices are each precision's own, overheads are shared."""
    works, durations, narrow = [], [], []
    for run in runs:
        shape = ModelShape.from_mapping(run.spec.model.shape)
        splitter = Splitter(shape, FORMATS[run.spec.engine.weights], Parallel(), FORMATS["bf16"].bits)
        for step in run.steps:
            works.append(splitter.split(counts_of_step(shape, step)))
            durations.append(step.duration_s)
            narrow.append(run.spec.engine.weights == "int8")
    stacked, wanted, is_int8 = stack(works), np.log(durations), np.array(narrow)
    peaks = peaks_of(chip)
    names = [*FITTED, "gemm int8", "memory int8"]

    def values(parameters: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
        factors = dict(zip(names, np.exp(parameters), strict=True))
        found: dict[str, Any] = {name: value * factors.get(name, 1.0) for name, value in starting_values().items()}
        for name in ("gemm", "memory"):
            found[name] = found[name] * np.where(is_int8, factors[f"{name} int8"], 1.0)
        return found

    def residuals(parameters: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        off = np.log(price(stacked, make_speeds(peaks, values(parameters))).duration_s) - wanted
        return np.concatenate([off / np.sqrt(len(off)) * 10, parameters / SPREAD])

    found = least_squares(residuals, np.zeros(len(names)), loss="soft_l1", max_nfev=60)
    fitted = values(found.x)
    out = {}
    for precision in PRECISIONS:
        place = int(np.argmax(is_int8 == (precision == "int8")))
        out[precision] = {
            name: float(np.ravel(value)[place if np.ndim(value) else 0]) for name, value in fitted.items()
        }
    return out


def starting_values() -> dict[str, float]:
    """Of the built-in engine, before anything is fitted."""
    return {name: item.prior for name, item in BY_NAME.items()} | dict(overrides_of("built-in"))


def peaks_of(chip: ChipRecord) -> Peaks:
    """Of a chip alone: it has no link."""
    rate = (chip.dense_tflops["bf16"] or 0.0) * 1e12
    return Peaks(float(chip.memory.bandwidth_bytes_per_s or 0.0), rate, rate, 1.0)


def counts_of_step(shape: ModelShape, step: Step) -> Counts:
    """A step's counts as its event tells them: prompts are taken to start at their first token."""
    decodes, prompt = step.decode_tokens, step.prefill_tokens
    sequences = max(step.running, decodes, 1)
    context = step.kv_used_slots / sequences
    flops = decodes * shape.attention_flops(int(context), 1) + (shape.attention_flops(0, prompt) if prompt else 0)
    elements = decodes * shape.kv_elements_held(int(context)) + shape.kv_elements_held(prompt)
    return Counts(decodes + prompt, sequences, sequences, elements, flops)


def predict(chip: ChipRecord, spec: RunSpec, values: dict[str, float]) -> Metrics:
    """The same spec on a modelled node of those coefficients."""
    cost = CostModel(chip, ModelShape.from_mapping(spec.model.shape), spec.engine.weights)
    speeds = make_speeds(peaks_of(chip), values)
    cost.tuning = Tuning(speeds, 1.0, "built-in", "local", spec.engine.weights, "calibrated", "this machine")
    clock = VirtualClock()
    pool = plan_kv_pool(cost, spec.engine.block_size, spec.engine.max_num_seqs)
    executor = ModelledExecutor(cost, pool, spec.engine.block_size, clock)
    events: list[AnyEvent] = []
    result = virtual.run(spec, build_engine(executor, spec.engine), clock, events.append)
    report = Report(outcome="succeeded", window_start_s=result.window_start_s, window_end_s=result.window_end_s,
                    client=result.client, facts={}, modelled=True)  # fmt: skip
    return metrics_of(events, report)


def validate(num_requests: int) -> list[dict[str, Any]]:
    """Measures all, calibrates on every other one, and gives the errors of the rest."""
    chip = local_chip()
    settings = [(load, precision) for precision in PRECISIONS for load in LOADS]
    runs = [measure(make_spec(load, precision, num_requests)) for load, precision in settings]
    values = calibrate_locally(chip, runs[::2])
    lines = []
    for (load, precision), run in list(zip(settings, runs, strict=True))[1::2]:
        predicted = predict(chip, run.spec, values[precision])
        errors = {name: predicted[name] / value - 1 for name, value in run.metrics.items()}
        lines.append({"load": load, "weights": precision, "measured": run.metrics, "predicted": predicted,
                      "error": errors})  # fmt: skip
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
        print(f"{name:<12} median error {typical:.1%}, worst {worst:.1%}" if math.isfinite(worst) else name)


if __name__ == "__main__":
    main()
