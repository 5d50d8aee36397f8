"""The band of a prediction from how far earlier ones were off."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.analysis.prediction_band import FEWEST, next_ratio


def test_too_few_earlier_predictions_give_no_band() -> None:
    assert next_ratio([1.1] * (FEWEST - 1)) is None
    assert next_ratio([1.1] * (FEWEST - 1) + [0.0]) is None


def test_equal_ratios_give_a_band_of_that_ratio_alone() -> None:
    assert next_ratio([1.2] * 6) == pytest.approx((1.2, 1.2))


def test_a_band_worked_out_by_hand() -> None:
    # Logarithms -0.2, -0.1, 0, 0.1, 0.2: mean 0, s = 0.1581, t(0.95, 4) = 2.132, sqrt(1.2) = 1.0954: half = 0.3692.
    low, high = next_ratio([math.exp(x) for x in (-0.2, -0.1, 0.0, 0.1, 0.2)]) or (0.0, 0.0)
    assert math.log(high) == pytest.approx(0.3692, abs=1e-3) and math.log(low) == pytest.approx(-0.3692, abs=1e-3)


def test_nine_in_ten_of_what_comes_next_lie_within() -> None:
    draws = np.random.default_rng(7).lognormal(0.1, 0.3, (4000, 9))
    inside = 0
    for *earlier, new in draws.tolist():
        low, high = next_ratio(earlier) or (0.0, 0.0)
        inside += low <= new <= high
    assert inside / len(draws) == pytest.approx(0.9, abs=0.02)
