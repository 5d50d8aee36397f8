"""Pooled distributions: one run as it is, several as all their requests together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.analysis.distributions import pool
from runners.distributions import GRID


def stored(values):
    return {"ttft": {"n": len(values), "quantiles": np.percentile(values, GRID).tolist()}}


def test_nothing_is_pooled_from_nothing():
    assert pool([], "ttft") is None
    assert pool([None, {}, stored([1.0])], "tpot") is None


def test_the_quantiles_of_one_run_are_those_of_its_requests():
    values = np.linspace(0.1, 0.5, 201)
    pooled = pool([stored(values)], "ttft")
    assert pooled.n == 201 and pooled.runs == 1
    for percent in (1, 50, 90, 99):
        assert pooled.quantile(percent / 100) == pytest.approx(np.percentile(values, percent))


def test_a_run_of_equal_values_is_a_step():
    pooled = pool([stored([0.25] * 40)], "ttft")
    assert pooled.values == (0.25,) and pooled.shares == (1.0,)


def test_runs_count_by_their_requests():
    pooled = pool([stored([1.0] * 300), stored([2.0] * 100)], "ttft")
    assert pooled.n == 400
    assert pooled.values == (1.0, 2.0)
    assert pooled.shares == pytest.approx((0.75, 1.0))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(20, 400), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_pooling_equals_the_requests_taken_together_within_the_grid(sizes, seed):
    rng = np.random.default_rng(seed)
    runs = [rng.lognormal(0.0, 0.5, size) for size in sizes]
    pooled = pool([stored(run) for run in runs], "ttft")
    together = np.concatenate(runs)
    assert list(pooled.values) == sorted(pooled.values) and list(pooled.shares) == sorted(pooled.shares)
    assert pooled.values[0] == pytest.approx(together.min()) and pooled.values[-1] == pytest.approx(together.max())
    # One request and one grid step are the resolution of each run's own curve.
    allowed = 0.01 + max(1 / size for size in sizes)
    exact = np.searchsorted(np.sort(together), pooled.values, side="right") / len(together)
    assert np.max(np.abs(exact - np.asarray(pooled.shares))) <= allowed
