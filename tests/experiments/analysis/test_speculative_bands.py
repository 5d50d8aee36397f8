"""Figures on stand-ins: bands of what may be, from runs that are at fault for nothing but their chip."""

from __future__ import annotations

from experiments.analysis.compare import RunResult, TrialResult
from experiments.analysis.speculative import REASON, Band, bands_by_trial, bands_of


def run(number: int, values: dict[str, float | None], reasons: tuple[str, ...] = (REASON,)) -> RunResult:
    return RunResult(number, number, "node", True, not reasons, reasons, 100, values, {}, (0.5, 2.0))


def trial(*runs: RunResult) -> TrialResult:
    return TrialResult(7, 1, {"chip": "x"}, runs)


def test_speeds_go_with_the_stand_ins_and_times_against_them():
    found = bands_of(trial(run(1, {"output_throughput": 100.0, "tpot": 0.01, "energy_per_output_token": 2.0})))
    assert found["output_throughput"] == Band(50.0, 200.0, "tok/s", 1)
    assert found["tpot"] == Band(0.005, 0.02, "s", 1)
    assert found["energy_per_output_token"] == Band(1.0, 4.0, "J", 1)


def test_a_band_lies_about_the_median_of_its_runs():
    found = bands_of(trial(*(run(n, {"output_throughput": value}) for n, value in enumerate((10.0, 20.0, 60.0)))))
    assert found["output_throughput"] == Band(10.0, 40.0, "tok/s", 3)


def test_of_a_share_nothing_is_known():
    assert bands_of(trial(run(1, {"mfu": 0.5, "output_throughput": None}))) == {}


def test_a_run_at_fault_for_more_than_its_chip_has_no_band():
    spoilt = run(1, {"output_throughput": 100.0}, (REASON, "too_few_requests"))
    assert bands_of(trial(spoilt)) == {}
    assert bands_by_trial([trial(spoilt)]) == {}


def test_a_band_is_no_value_of_the_trial():
    one = trial(run(1, {"output_throughput": 100.0}))
    assert one.values("output_throughput") == []
    assert list(bands_by_trial([one])) == [7]
