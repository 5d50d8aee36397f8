"""What each step of a ladder gains, on figures that can be checked by hand."""

from __future__ import annotations

import pytest
from scipy import stats

from experiments.analysis.compare import RunResult, TrialResult
from experiments.analysis.waterfall import waterfall

METRIC = "output_throughput"


def rung(number: int, values: list[float], *, valid: bool = True) -> TrialResult:
    runs = tuple(
        RunResult(number * 10 + repeat, repeat, "bench", False, valid, (), 10, {METRIC: value})
        for repeat, value in enumerate(values)
    )
    return TrialResult(number, 1, {"engine.max_num_seqs": number}, runs)


def test_a_gain_is_paired_with_the_rung_below_and_the_total_with_the_foot() -> None:
    trials = [rung(0, [100, 102, 98]), rung(1, [150, 153, 149]), rung(2, [200, 201, 199])]
    found = waterfall(("baseline", "a", "b"), trials, METRIC)
    foot, first, second = found.rungs
    assert foot.gain is None and foot.verdict == "" and foot.mean == 100
    assert first.gain is not None and second.gain is not None and found.total is not None
    gains = [50.0, 51.0, 51.0]
    low, high = stats.t.interval(0.95, 2, loc=sum(gains) / 3, scale=stats.sem(gains))
    assert first.gain["difference"] == pytest.approx(sum(gains) / 3)
    assert (first.gain["low"], first.gain["high"]) == pytest.approx((low, high))
    assert second.gain["relative"] == pytest.approx((200 - 452 / 3) / (452 / 3))
    assert found.total["difference"] == pytest.approx(100) and found.total["relative"] == pytest.approx(1)
    assert (first.verdict, second.verdict, found.total_verdict) == ("better",) * 3


def test_a_step_within_the_noise_is_called_no_difference() -> None:
    found = waterfall(("baseline", "a"), [rung(0, [100, 110, 90]), rung(1, [103, 100, 99])], METRIC)
    assert found.rungs[1].verdict == "no difference shown"
    assert found.rungs[1].gain is not None and found.rungs[1].gain["n"] == 3


def test_a_rung_without_a_valid_run_has_no_mean_and_no_gain_nor_has_the_next_one() -> None:
    trials = [rung(0, [100, 101]), rung(1, [150, 151], valid=False), rung(2, [200, 201])]
    found = waterfall(("baseline", "a", "b"), trials, METRIC)
    assert [one.mean for one in found.rungs] == [100.5, None, 200.5]
    assert [one.gain for one in found.rungs] == [None, None, None]
    assert found.total is not None and found.total["difference"] == pytest.approx(100)


def test_less_of_what_is_bad_is_better() -> None:
    def with_ttft(number: int, values: list[float]) -> TrialResult:
        one = rung(number, values)
        runs = tuple(
            RunResult(run.id, run.repeat, run.node, False, True, (), 10, {"ttft": run.values[METRIC]})
            for run in one.runs
        )
        return TrialResult(one.id, 1, one.settings, runs)

    found = waterfall(("baseline", "a"), [with_ttft(0, [2.0, 2.1, 1.9]), with_ttft(1, [1.0, 1.1, 0.9])], "ttft")
    assert found.rungs[1].verdict == "better" and found.unit == "s" and found.more_is_better is False
