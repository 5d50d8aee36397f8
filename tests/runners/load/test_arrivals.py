"""Open-loop arrivals: rate, burstiness and determinism."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.load.arrivals import arrival_times
from runners.load.seeds import Stream, random_stream
from runners.spec import OpenArrival

RATES = st.floats(0.01, 10_000)
BURSTINESS = st.floats(0.05, 50)
SEEDS = st.integers(0, 2**63 - 1)


def take(seed: int, rate: float, burstiness: float, count: int) -> list[float]:
    arrival = OpenArrival(kind="open", request_rate=rate, burstiness=burstiness)
    return list(itertools.islice(arrival_times(arrival, random_stream(seed, Stream.ARRIVALS)), count))


@given(SEEDS, RATES, BURSTINESS)
def test_times_never_go_back_and_the_same_seed_gives_the_same_times(seed: int, rate: float, burstiness: float) -> None:
    times = take(seed, rate, burstiness, 300)
    assert all(later >= earlier >= 0 for earlier, later in itertools.pairwise(times))
    assert times == take(seed, rate, burstiness, 300)


@settings(max_examples=40)
@given(SEEDS, RATES, st.floats(0.25, 20))
def test_mean_gap_is_that_of_the_rate_and_its_spread_that_of_the_burstiness(
    seed: int, rate: float, burstiness: float
) -> None:
    count = 4000
    gaps = np.diff(take(seed, rate, burstiness, count), prepend=0.0)
    # Six standard errors of a mean of gamma gaps: a failure is a wrong scale, not bad luck.
    assert gaps.mean() * rate == pytest.approx(1.0, abs=6 / np.sqrt(burstiness * count))
    # The standard error of a coefficient of variation grows with the tail; a third is far beyond it here.
    assert gaps.std() / gaps.mean() * np.sqrt(burstiness) == pytest.approx(1.0, rel=0.33)


def test_burstiness_one_is_a_poisson_process() -> None:
    times = np.asarray(take(7, 100.0, 1.0, 20_000))
    counts = np.histogram(times, bins=np.arange(0, times[-1] // 1, 1.0))[0]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.35)


def test_other_seeds_give_other_times() -> None:
    assert take(1, 5.0, 1.0, 10) != take(2, 5.0, 1.0, 10)
