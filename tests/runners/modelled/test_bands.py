"""Errors by scope and bands: order statistics of what a cross-validation was off, and how often they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runners.modelled.bands import coverage_by_quantity, error_of_ratios, errors_by_scope, fold_of
from runners.modelled.calibration_file import BAND_ROWS, LEAST_ROWS, Calibration, own_calibration
from runners.modelled.residuals import Residual, ResidualsError, read_residuals, write_residuals

BAND_HOLDS = (0.85, 0.95)


def residual(number: int, ratio: float, engine: str = "vLLM", precision: str = "fp8", group: str = "a") -> Residual:
    return Residual(f"r{number}", "rate", engine, "hopper", precision, group, ratio)


def scattered(count: int, groups: int, seed: int, spread: float = 0.2) -> list[Residual]:
    """Rows whose groups err together, and each by itself too."""
    generator = np.random.default_rng(seed)
    shared, own = generator.normal(0, spread, groups), generator.normal(0, spread, count)
    return [residual(n, float(own[n] + shared[n % groups]), group=f"g{n % groups}") for n in range(count)]


def test_a_band_is_one_rank_wider_than_the_quantiles_of_its_rows() -> None:
    ratios = -np.arange(1, 100) / 100
    error = error_of_ratios("rate: all engines", ratios)
    assert (error.low, error.high) == (0.05, 0.95)
    assert error.bias == pytest.approx(-0.5) and error.n == 99


def test_of_few_rows_a_band_is_their_whole_range() -> None:
    error = error_of_ratios("rate: all engines", np.array([-0.3, 0.1, 0.2]))
    assert (error.low, error.high) == (-0.2, 0.3)


def test_a_scope_with_few_rows_has_its_own_error_and_the_band_of_a_wider_one() -> None:
    few = [residual(n, 0.01, precision="int8") for n in range(LEAST_ROWS)]
    many = scattered(BAND_ROWS, 30, seed=1)
    calibration = Calibration({}, {}, {}, errors_by_scope([*few, *many]))
    narrow, wide = (calibration.errors[f"rate: vLLM x hopper{scope}"] for scope in (" x int8", ""))
    found = calibration.error_of("rate", "vLLM", "hopper", "int8")
    assert found is not None and found.median == narrow.median == pytest.approx(0.01, abs=1e-3)
    assert (found.low, found.high) == (wide.low, wide.high)


def test_a_group_always_falls_into_the_same_fold_and_another_seed_deals_anew() -> None:
    names = [f"chip|model{n}|fp8" for n in range(40)]
    dealt = [[fold_of(name, 5, seed) for name in names] for seed in (0, 0, 1)]
    assert dealt[0] == dealt[1] != dealt[2] and set(dealt[0]) == set(range(5))


def test_bands_hold_for_groups_that_they_were_not_made_from() -> None:
    found = coverage_by_quantity(scattered(3000, 300, seed=2), folds=5)
    assert found["all"].n == 3000 and 0.87 < found["rate"].share < 0.93


def test_bands_that_are_too_narrow_are_found_out() -> None:
    """What is far off in one group alone lies outside of the band that the other groups make."""
    wild = [residual(n, 5.0, group="wild") for n in range(100)]
    assert coverage_by_quantity([*scattered(400, 40, seed=3), *wild], folds=5)["rate"].share < 0.8


def test_the_stored_bands_hold_as_often_as_they_say_on_families_that_they_had_not_seen() -> None:
    stored = own_calibration().coverage
    assert BAND_HOLDS[0] <= stored["all"].share <= BAND_HOLDS[1]
    residuals = read_residuals()
    assert stored["all"].n == sum(item.quantity != "run_ttft" for item in residuals)
    for seed in (0, 7):
        found = coverage_by_quantity(residuals, folds=5, seed=seed)
        assert BAND_HOLDS[0] <= found["all"].share <= BAND_HOLDS[1]
        if seed == 0:
            assert found == stored


def test_residuals_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "residuals.csv"
    rows = scattered(5, 2, seed=4)
    write_residuals(path, rows)
    assert read_residuals(path) == rows


@pytest.mark.parametrize("line", ["r1,rate,vLLM,hopper,fp8,g,fast", "r1,rate"])
def test_a_line_that_is_no_residual_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "residuals.csv"
    path.write_text(f"row_id,quantity,engine,family,precision,group,ratio\n{line}\n")
    with pytest.raises(ResidualsError, match=r"residuals\.csv: line 2"):
        read_residuals(path)
