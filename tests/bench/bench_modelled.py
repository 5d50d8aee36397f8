"""How much faster than real time a modelled node runs, on one core, and what memory it takes.

    python -m tests.bench.bench_modelled              an H100 with 64 users of Llama 3 8B, 1,000 tokens in and out
    python -m tests.bench.bench_modelled --requests 1000000    short requests, so many of them

The first prints beside each speed the ceiling: the run's time over what the arithmetic of its steps alone takes, which
no scheduler, event or file is part of. What is asked: 20 x real time step by step, 200 x with steps taken together.
The second prints requests per second and resident memory on the way: it must not grow with their number.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from runners import shapes
from runners.chips import load_catalog
from runners.events import AnyEvent, Step
from runners.execution.journal import Journal
from runners.execution.modelled import collect_rarely
from runners.load.virtual import run
from runners.modelled.fleet_build import build
from runners.modelled.step_model import DecodeSums
from runners.modelled.topology import SystemPlan, plan_system
from runners.spec import CostSpec, EngineSpec, ModelRef, PlacementSpec, RunSpec, SloSpec, WorkloadSpec
from runners.spool import SpoolWriter

CHIP, SHAPE = "h100-sxm", "llama-3-8b"
USERS = 64
SAID_EVERY = 100_000


@dataclass
class CountingSink:
    """Counts events and keeps none."""

    counts: Counter[str] = field(default_factory=Counter)
    said: Callable[[int], None] | None = None

    def __call__(self, events: Sequence[AnyEvent]) -> None:
        before = self.counts["request"] // SAID_EVERY
        self.counts.update(event.kind for event in events)
        if self.said is not None and self.counts["request"] // SAID_EVERY > before:
            self.said(self.counts["request"])


def make_spec(users: int, input_tokens: int, output_tokens: int, num_requests: int) -> RunSpec:
    chip = next(chip for chip in load_catalog() if chip.chip_id == CHIP)
    load: dict[str, Any] = {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": users},
        "input_len": {"dist": "fixed", "tokens": input_tokens},
        "output_len": {"dist": "fixed", "tokens": output_tokens},
        "num_requests": num_requests,
        "warmup": {"num_requests": 0},
    }
    return RunSpec(
        run_id=1, experiment_id=1, trial_index=0, repeat=0, seed=1, settings={},
        model=ModelRef(name="llama", sha256="0", shape=shapes.get(SHAPE).to_mapping(), random_weights=True),
        chip_id=CHIP, chip=chip.model_dump(mode="json"),
        engine=EngineSpec(max_num_seqs=users), placement=PlacementSpec(), workload=WorkloadSpec.model_validate(load),
        slo=SloSpec(), cost=CostSpec(), time_limit_s=900, code_revision="bench",
    )  # fmt: skip


def arithmetic_s(plan: SystemPlan, steps: int) -> float:
    """Seconds of one core that the cost model alone takes for so many decode steps."""
    cost = plan.pools[0].cost
    sums = iter(DecodeSums.each([1000] * USERS, 0))
    start = time.perf_counter()
    for _ in range(steps):
        cost.decode_step(next(sums))
    return time.perf_counter() - start


def measure(spec: RunSpec, coalesce: bool, sink: Callable[[Sequence[AnyEvent]], None]) -> tuple[float, float]:
    """Virtual seconds, and those of one core."""
    system = build(plan_system(spec), spec.engine, coalesce=coalesce)
    start = time.process_time()
    run(spec, system, sink)
    return system.clock.now(), time.process_time() - start


def print_speeds(num_requests: int, profile: bool) -> None:
    spec = make_spec(USERS, 1000, 1000, num_requests)
    sink = CountingSink()
    virtual_s, _ = measure(spec, True, sink)
    steps = sink.counts[Step.model_fields["kind"].default]
    ceiling = virtual_s / arithmetic_s(plan_system(spec), steps)
    print(f"{steps} steps, {virtual_s:.1f} s; ceiling {ceiling:,.0f} x real time by the steps' arithmetic alone")
    for name, coalesce, asked in (("step by step", False, 20), ("steps taken together", True, 200)):
        _, bare_s = measure(spec, coalesce, CountingSink())
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(SpoolWriter(Path(folder) / "1-1.jsonl"))
            _, spooled_s = measure(spec, coalesce, journal.add_all)
        print(
            f"{name:22} {virtual_s / bare_s:7.0f} x, with the spool {virtual_s / spooled_s:7.0f} x (asked: {asked} x)"
        )
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(measure, spec, True, CountingSink())
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def print_memory(num_requests: int) -> None:
    process, start = psutil.Process(), time.perf_counter()

    def say(count: int) -> None:
        mib = process.memory_info().rss / 2**20
        print(f"{count:9,} requests, {count / (time.perf_counter() - start):7.0f}/s, {mib:7.1f} MiB", flush=True)

    measure(make_spec(USERS, 32, 4, num_requests), True, CountingSink(said=say))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, help="so many short requests, for their memory")
    parser.add_argument("--profile", action="store_true", help="show where the time goes with steps taken together")
    options = parser.parse_args()
    collect_rarely()
    if options.requests:
        print_memory(options.requests)
    else:
        print_speeds(3 * USERS, options.profile)


if __name__ == "__main__":
    main()
