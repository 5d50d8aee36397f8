"""From samples of power to joules, on figures that can be checked by hand."""

from __future__ import annotations

import pytest

from runners.power import Energy, PowerSample, energy_over


def samples(*pairs: tuple[float, float]) -> list[PowerSample]:
    return [PowerSample(*pair) for pair in pairs]


def test_energy_is_the_trapezoid_over_the_samples() -> None:
    found = energy_over(samples((0, 10), (1, 20), (2, 20)), 0, 2)
    assert found == Energy(pytest.approx(15 + 20), 1.0, 1)


def test_power_at_the_windows_edges_is_interpolated() -> None:
    found = energy_over(samples((0, 10), (2, 30), (4, 30)), 1, 3)
    # 20 W at 1 s, 30 W at 2 s and 3 s
    assert found == Energy(pytest.approx(25 + 30), 2.0, 1)


def test_a_window_beyond_the_samples_is_filled_with_the_nearest_and_counts_as_a_gap() -> None:
    found = energy_over(samples((5, 10), (6, 10)), 0, 10)
    assert found == Energy(pytest.approx(100), 5.0, 2)


def test_a_gap_that_reaches_across_an_edge_counts_as_a_whole() -> None:
    found = energy_over(samples((0, 10), (4, 10), (5, 10)), 3.5, 5)
    assert found is not None and found.largest_gap_s == 4


@pytest.mark.parametrize("window", [(2.0, 2.0), (3.0, 2.0)])
def test_no_window_and_no_samples_have_no_energy(window: tuple[float, float]) -> None:
    assert energy_over(samples((0, 10)), *window) is None
    assert energy_over([], 0, 1) is None
