"""Effect sizes, power and repeats against hands, published tables and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments.analysis.power import (
    effect_size_paired,
    effect_size_unpaired,
    power_paired,
    power_unpaired,
    repeats_needed,
)


def test_cohens_d_of_pairs_by_hand():
    """Differences 1, 2, 3: mean 2 in standard deviations of 1."""
    assert effect_size_paired([10.0, 20.0, 30.0], [11.0, 22.0, 33.0]) == pytest.approx(2)
    assert effect_size_paired([10.0, 20.0], [11.0, 21.0]) is None
    assert effect_size_paired([10.0], [11.0]) is None
    with pytest.raises(ValueError, match="can't be paired"):
        effect_size_paired([1.0], [1.0, 2.0])


def test_cohens_d_of_two_groups_by_hand():
    """Squares of deviations 2 and 20 over 2 + 3 degrees of freedom: the pooled deviation is sqrt(4.4)."""
    found = effect_size_unpaired([1.0, 2.0, 3.0], [4.0, 6.0, 8.0, 10.0])
    assert found == pytest.approx(5 / math.sqrt(4.4))
    assert effect_size_unpaired([1.0], [2.0]) is None


@pytest.mark.parametrize(
    ("effect", "repeats"),
    # Cohen 1988, table 2.4.1 and 2.3.5: two groups at 5 %, power 0.8
    [(0.2, 394), (0.5, 64), (0.8, 26)],
)
def test_the_repeats_that_cohens_tables_give(effect: float, repeats: int):
    assert repeats_needed(effect, paired=False) == repeats
    assert power_unpaired(effect, repeats, repeats) >= 0.8 > power_unpaired(effect, repeats - 1, repeats - 1)


def test_the_power_of_no_effect_is_the_tests_own_error():
    assert power_paired(0.0, 5) == pytest.approx(0.05, abs=1e-4)
    assert power_unpaired(0.0, 3, 12) == pytest.approx(0.05, abs=1e-4)


def test_one_run_has_no_power_and_no_effect_needs_endless_repeats():
    assert power_paired(9.0, 1) == power_unpaired(9.0, 1, 1) == power_unpaired(9.0, 0, 5) == 0
    assert repeats_needed(0.0, paired=True) is None


@pytest.mark.parametrize("effect", [0.5, 1.0, 2.5, 10.0, 40.0])
def test_power_agrees_with_simulated_experiments(effect: float):
    rng = np.random.default_rng(3)
    values = rng.standard_normal((20_000, 3)) + effect
    seen = stats.ttest_1samp(values, 0, axis=1).pvalue < 0.05
    assert power_paired(effect, 3) == pytest.approx(float(np.mean(seen)), abs=0.012)


def test_power_grows_with_the_effect_and_with_repeats_to_certainty():
    by_effect = [power_paired(effect, 3) for effect in np.geomspace(0.1, 1e6, 60)]
    assert by_effect == sorted(by_effect)
    assert by_effect[-1] == pytest.approx(1)
    assert repeats_needed(1e9, paired=True) == 2
