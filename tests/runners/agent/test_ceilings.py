"""runners.agent.ceilings: the figures have the shape, the order and the size that the machine's physics allows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from runners.agent.ceilings import REPEATS, measure_matmul, measure_triad, thread_counts, triad_array_bytes
from runners.agent.detect import usable_cores

MIB = 1 << 20


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (12, [1, 2, 4, 8, 12])]
)
def test_threads_are_tried_from_one_to_all_cores(cores: int, counts: list[int]) -> None:
    assert thread_counts(cores) == counts


def test_arrays_are_larger_than_the_last_cache_and_smaller_than_the_memory() -> None:
    assert triad_array_bytes(32 * MIB, 64 << 30) == 128 * MIB
    assert triad_array_bytes(None, 64 << 30) == 64 * MIB
    assert triad_array_bytes(512 * MIB, 64 << 30) == 1024 * MIB
    assert 3 * triad_array_bytes(32 * MIB, 256 * MIB) < 256 * MIB


def test_a_rate_is_a_median_below_its_best() -> None:
    rate = measure_triad(1, 16 * MIB, budget_s=0.5)
    assert 0 < rate.median <= rate.best
    assert 2 <= rate.repeats <= REPEATS


def test_products_are_measured_in_every_precision_that_torch_has_here() -> None:
    rates = {name: measure_matmul(name, 1, budget_s=0.2, size=256) for name in ("fp32", "bf16", "int8")}
    assert rates["fp32"] is not None and rates["bf16"] is not None
    assert all(rate is None or rate.median > 1e6 for rate in rates.values())


def test_the_program_prints_what_it_measured_and_how() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runners.agent.ceilings", "--budget-scale", "0.01"], capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    bandwidth, matmul = found["memory_bandwidth"], found["matmul"]
    assert set(bandwidth["by_threads"]) == {str(count) for count in thread_counts(usable_cores())}
    assert str(bandwidth["array_bytes"]) in bandwidth["method"]
    assert bandwidth["unit"] == "bytes/s" and matmul["unit"] == "FLOP/s"
    assert set(matmul["by_precision"]) == {"fp32", "bf16", "int8"}
    assert found["chip"] and found["cores"] == usable_cores()
