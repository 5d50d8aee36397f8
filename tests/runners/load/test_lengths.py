"""Drawn token counts: within their bounds, spread as their distribution says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.lengths import draw_length
from runners.spec import FixedLen, LengthSpec, LognormalLen, UniformLen

TOKENS = st.integers(1, 131_072)
BOUNDS = st.tuples(TOKENS, TOKENS).map(sorted)


def draws(spec: LengthSpec, count: int, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray([draw_length(spec, rng) for _ in range(count)])


@given(TOKENS, st.integers(0, 2**32))
def test_fixed_is_always_its_own_length(tokens: int, seed: int) -> None:
    assert draw_length(FixedLen(dist="fixed", tokens=tokens), np.random.default_rng(seed)) == tokens


@given(BOUNDS, st.integers(0, 2**32))
def test_uniform_stays_between_its_ends(bounds: list[int], seed: int) -> None:
    spec = UniformLen(dist="uniform", min_tokens=bounds[0], max_tokens=bounds[1])
    assert bounds[0] <= draw_length(spec, np.random.default_rng(seed)) <= bounds[1]


@given(TOKENS, st.floats(0.01, 4), TOKENS, st.integers(0, 2**32))
def test_lognormal_is_clipped_to_at_least_one_and_at_most_its_maximum(
    median: int, sigma: float, most: int, seed: int
) -> None:
    spec = LognormalLen(dist="lognormal", median_tokens=median, sigma=sigma, max_tokens=most)
    assert 1 <= draw_length(spec, np.random.default_rng(seed)) <= most


def test_uniform_reaches_both_ends_evenly() -> None:
    drawn = draws(UniformLen(dist="uniform", min_tokens=3, max_tokens=6), 4000)
    counts = np.bincount(drawn, minlength=7)[3:]
    assert counts.sum() == 4000 and counts.min() > 850


def test_lognormal_has_the_median_and_sigma_that_were_asked_for() -> None:
    drawn = draws(LognormalLen(dist="lognormal", median_tokens=400, sigma=0.6, max_tokens=100_000), 8000)
    assert np.median(drawn) == pytest.approx(400, rel=0.05)
    assert np.log(drawn).std() == pytest.approx(0.6, rel=0.05)
