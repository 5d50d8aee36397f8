"""Each interval and the noise floor against what a hand computes from the tables, and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments.analysis.intervals import RESAMPLES, mean_interval, noise_floor, paired_interval, welch_interval

T_1, T_2, T_4_0755 = 12.7062, 4.30265, 2.75567
TWELVE = [9.1, 9.4, 9.6, 9.9, 10.0, 10.1, 10.3, 10.4, 10.9, 11.6, 12.4, 14.8]


def test_students_interval_by_hand():
    """Mean 2, standard deviation 1, and t with 2 degrees of freedom."""
    found = mean_interval([1.0, 2.0, 3.0])
    half = T_2 / math.sqrt(3)
    assert (found.estimate, found.low, found.high) == pytest.approx((2, 2 - half, 2 + half), rel=1e-5)
    assert found.method == "t"


def test_a_paired_interval_is_that_of_the_differences():
    found = paired_interval([10.0, 20.0, 30.0], [11.0, 22.0, 33.0])
    half = T_2 / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), rel=1e-5)


def test_welchs_interval_by_hand():
    """Variances of the means 1/3 and 5/3, so 2 together, and 4 / (1/18 + 25/27) = 4.0755 degrees of freedom."""
    found = welch_interval([1.0, 2.0, 3.0], [4.0, 6.0, 8.0, 10.0])
    half = T_4_0755 * math.sqrt(2)
    assert (found.estimate, found.low, found.high) == pytest.approx((5, 5 - half, 5 + half), rel=1e-3)
    reference = stats.ttest_ind([4.0, 6.0, 8.0, 10.0], [1.0, 2.0, 3.0], equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high))
    assert found.n == 3


def test_the_bootstrap_is_scipys_bca_at_the_expanded_level():
    n = len(TWELVE)
    reach = stats.t.ppf(0.975, n - 1) * math.sqrt(n / (n - 1))
    reference = stats.bootstrap(
        (np.asarray(TWELVE),),
        np.mean,
        confidence_level=1 - 2 * stats.norm.sf(reach),
        n_resamples=RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    found = mean_interval(TWELVE)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), rel=1e-3)
    plain = stats.bootstrap((np.asarray(TWELVE),), np.mean, method="BCa", rng=np.random.default_rng(0))
    assert found.low < plain.confidence_interval.low < plain.confidence_interval.high < found.high


def test_the_bootstrap_leans_to_the_side_of_the_long_tail():
    found = mean_interval(TWELVE)
    assert found.high - found.estimate > found.estimate - found.low


def test_equal_values_have_an_interval_of_no_width():
    assert [(found.low, found.high) for found in (mean_interval([7.0] * 12), mean_interval([7.0] * 3))] == [(7, 7)] * 2
    assert welch_interval([7.0] * 3, [8.0] * 3).low == 1


def test_the_noise_floor_by_hand():
    """Deviations of −10 % and +10 %: a spread of sqrt(0.02 / 1), t with 1 degree of freedom, two means of 2 runs."""
    assert noise_floor([[9.0, 11.0]]) == pytest.approx(T_1 * math.sqrt(0.02), rel=1e-5)
    # a second setting of another size and the same relative spread adds a degree of freedom
    assert noise_floor([[9.0, 11.0], [90.0, 110.0]]) == pytest.approx(T_2 * math.sqrt(0.04 / 2), rel=1e-5)
