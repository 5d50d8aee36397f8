"""What this machine can do at most, measured once: memory bandwidth by threads, matrix product rate by precision.

`python -m runners.agent.ceilings` prints JSON; it takes about ten seconds and must not run beside an experiment. These
are what a plain program reaches, to hold results against; they are no vendor's peak.
Bandwidth is the STREAM triad's a = b + s·c in float32, counted as STREAM does (two reads and one write of n elements;
the read that a write may cause is not counted): https://www.cs.virginia.edu/stream/ref.html
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from runners.agent.detect import detect, usable_cores

REPEATS = 5
L3_FACTOR = 4
MIN_ARRAY_BYTES = 64 << 20
MAX_ARRAY_BYTES = 1 << 30
MATMUL_SIZE = 2048
MATMUL_BUDGET_S = 1.0
TRIAD_BUDGET_S = 4.0


@dataclass(frozen=True)
class Rate:
    """Median and best of `repeats` measurements, per second."""

    median: float
    best: float
    repeats: int


def measure(budget_scale: float = 1.0) -> dict[str, Any]:
    """All ceilings of this machine, with how they were measured. `budget_scale` shortens it for a test."""
    facts = detect()
    cores = usable_cores()
    array_bytes = triad_array_bytes(facts["cpu"]["l3_bytes"], facts["memory"]["usable_bytes"])
    return {
        "measured_at": time.time(),
        "chip": facts["chip"],
        "cores": cores,
        "torch": torch.__version__,
        "memory_bandwidth": {
            "unit": "bytes/s",
            "method": f"triad, 3 float32 arrays of {array_bytes} bytes each",
            "array_bytes": array_bytes,
            "by_threads": {
                str(threads): asdict(measure_triad(threads, array_bytes, TRIAD_BUDGET_S * budget_scale / cores))
                for threads in thread_counts(cores)
            },
        },
        "matmul": {
            "unit": "FLOP/s",
            "method": f"square product of size {MATMUL_SIZE}, {cores} threads",
            "size": MATMUL_SIZE,
            "threads": cores,
            "by_precision": {
                name: asdict(rate) if (rate := measure_matmul(name, cores, MATMUL_BUDGET_S * budget_scale)) else None
                for name in MATMULS
            },
        },
    }


def thread_counts(cores: int) -> list[int]:
    """1, 2, 4, … and all cores: the curve's shape, not each point of it."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return counts if cores == 1 else [*counts, cores]


def triad_array_bytes(l3_bytes: int | None, memory_bytes: int) -> int:
    """Well above the last cache, so that memory is measured, and three of them well below the memory there is."""
    wanted = max(MIN_ARRAY_BYTES, L3_FACTOR * (l3_bytes or 0))
    return int(min(wanted, MAX_ARRAY_BYTES, memory_bytes // 8)) // 4096 * 4096


def measure_triad(threads: int, array_bytes: int, budget_s: float) -> Rate:
    """Bytes per second of a = b + s·c, with this many threads."""
    torch.set_num_threads(threads)
    n = array_bytes // 4
    a, b, c = torch.zeros(n), torch.ones(n), torch.ones(n)
    return _rate(lambda: torch.add(b, c, alpha=3.0, out=a), 3.0 * array_bytes, budget_s)


def _matmul_fp32(n: int) -> Callable[[], Any]:
    a, b = torch.rand(n, n), torch.rand(n, n)
    return lambda: a @ b


def _matmul_bf16(n: int) -> Callable[[], Any]:
    a, b = torch.rand(n, n).bfloat16(), torch.rand(n, n).bfloat16()
    return lambda: a @ b


def _matmul_int8(n: int) -> Callable[[], Any]:
    a = torch.randint(-127, 127, (n, n), dtype=torch.int8)
    b = torch.randint(-127, 127, (n, n), dtype=torch.int8)
    return lambda: torch._int_mm(a, b)


MATMULS: dict[str, Callable[[int], Callable[[], Any]]] = {
    "fp32": _matmul_fp32,
    "bf16": _matmul_bf16,
    "int8": _matmul_int8,
}


def measure_matmul(precision: str, threads: int, budget_s: float, size: int = MATMUL_SIZE) -> Rate | None:
    """FLOP per second (a multiply-add is two) of a square product; None where torch has no such product here."""
    torch.set_num_threads(threads)
    try:
        product = MATMULS[precision](size)
        product()
    except (RuntimeError, NotImplementedError):
        return None
    return _rate(product, 2.0 * size**3, budget_s)


def _rate(work: Callable[[], Any], amount: float, budget_s: float) -> Rate:
    """`amount` per second of `work`: one warm-up, then REPEATS times, or fewer (at least 2) where the time is up."""
    work()
    rates: list[float] = []
    deadline = time.monotonic() + budget_s
    while len(rates) < REPEATS and (len(rates) < 2 or time.monotonic() < deadline):
        begin = time.perf_counter()
        work()
        rates.append(amount / (time.perf_counter() - begin))
    return Rate(statistics.median(rates), max(rates), len(rates))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measures this machine's ceilings and prints them as JSON.")
    parser.add_argument("--budget-scale", type=float, default=1.0)
    print(json.dumps(measure(parser.parse_args().budget_scale)))
