"""Intervals, differences and fronts on numbers that can be checked by hand or against scipy."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from experiments.analysis.compare import RunResult, TrialResult, compare_trials, flatten_metrics
from experiments.analysis.intervals import mean_interval, noise_floor, paired_interval, welch_interval
from experiments.analysis.pareto import best_trial, pareto_front


def trial(trial_id: int, throughputs: list[float], *, node: str = "a", modelled: bool = False, **more) -> TrialResult:
    valid = more.pop("valid", True)
    runs = tuple(
        RunResult(trial_id * 100 + i, i, node, modelled, valid, () if valid else ("client_bound",), 10, values)
        for i, values in enumerate({"output_throughput": v} | more for v in throughputs)
    )
    return TrialResult(trial_id, 1, {"engine.max_num_seqs": trial_id}, runs)


def test_below_ten_values_the_interval_is_students():
    values = [10.0, 11.0, 12.5]
    expected = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx(expected)


def test_from_ten_values_on_it_is_the_bootstrap_and_repeats_itself():
    values = [random.Random(i).gauss(10, 1) for i in range(30)]
    found = mean_interval(values)
    assert found.method == "BCa bootstrap"
    assert found == mean_interval(values)
    assert found.low < sum(values) / 30 < found.high


def test_one_value_has_no_interval():
    assert mean_interval([3.0]).low is None
    assert welch_interval([1.0], [2.0]).low is None


def test_pairing_takes_out_what_both_share():
    before, after = [10.0, 20.0, 30.0], [11.0, 21.1, 30.9]
    assert paired_interval(before, after).excludes_zero
    assert not welch_interval(before, after).excludes_zero
    with pytest.raises(ValueError, match="can't be paired"):
        paired_interval([1.0], [1.0, 2.0])


def test_the_noise_floor_covers_95_percent_of_equal_settings():
    rng = random.Random(7)

    def group() -> list[float]:
        return [rng.gauss(100, 5) for _ in range(3)]

    inside = 0
    for _ in range(400):
        a, b = group(), group()
        floor = noise_floor([a, b])
        assert floor is not None
        inside += abs(sum(b) / sum(a) - 1) <= floor
    assert 0.92 <= inside / 400 <= 0.98


def test_without_repeats_there_is_no_floor_and_no_difference():
    assert noise_floor([[1.0], [2.0]]) is None
    found = compare_trials([trial(1, [10.0]), trial(2, [20.0])])
    assert [row["is_difference"] for row in found["differences"]] == [False]


def test_a_clear_paired_difference_is_called_one():
    found = compare_trials([trial(1, [10.0, 10.2, 9.9]), trial(2, [20.0, 20.1, 19.9])])
    (row,) = found["differences"]
    assert row["is_difference"]
    assert row["method"] == "paired t"
    assert row["relative"] == pytest.approx(60 / 30.1 - 1)
    assert row["low"] < row["difference"] < row["high"]


def test_a_difference_inside_the_noise_is_not_called_one():
    found = compare_trials([trial(1, [10.0, 14.0, 9.0]), trial(2, [10.1, 14.1, 9.1])])
    (row,) = found["differences"]
    assert row["low"] > 0
    assert not row["is_difference"]


def test_invalid_runs_are_listed_but_enter_no_figure():
    found = compare_trials([trial(1, [10.0, 10.0]), trial(2, [99.0, 99.0], valid=False)])
    bad = found["trials"][1]
    assert bad["metrics"] == {}
    assert [run["reasons"] for run in bad["runs"]] == [["client_bound"]] * 2
    assert found["differences"] == []


def test_across_nodes_the_difference_is_unpaired():
    found = compare_trials([trial(1, [10.0, 10.1, 10.2]), trial(2, [20.0, 20.1, 20.2], node="b")])
    assert found["differences"][0]["method"] == "Welch t"


def test_a_modelled_figure_gets_no_interval_from_its_seeds():
    found = compare_trials([trial(1, [10.0, 10.1]), trial(2, [900.0, 900.0], node="m", modelled=True)])
    assert found["trials"][1]["metrics"]["output_throughput"]["low"] is None
    (row,) = found["differences"]
    assert row["mixes_modelled"]
    assert not row["is_difference"]


def test_the_baseline_is_the_trial_that_was_named():
    found = compare_trials([trial(1, [10.0, 11.0]), trial(2, [20.0, 21.0])], {"engine.max_num_seqs": 2})
    assert [t["baseline"] for t in found["trials"]] == [False, True]
    assert found["differences"][0]["difference"] == pytest.approx(-10)


def test_the_front_keeps_what_nothing_beats_and_no_invalid_run():
    trials = [
        trial(1, [10.0], interactivity=30.0),
        trial(2, [20.0], interactivity=20.0),
        trial(3, [15.0], interactivity=15.0),
        trial(4, [99.0], interactivity=99.0, valid=False),
        trial(5, [500.0], interactivity=500.0, modelled=True),
    ]
    assert pareto_front(trials, "interactivity", "output_throughput") == [2, 1, 5]
    assert best_trial(trials, "output_throughput") == 2


def test_flattening_keeps_the_tail_beside_the_median():
    summary = {
        "metrics": {
            "ttft": {"value": 0.2, "percentiles": {"p95": {"value": 0.5, "enough": False}}},
            "kv_use": {"value": None, "percentiles": {}},
        }
    }
    assert flatten_metrics(summary) == {"ttft": 0.2, "ttft_p95": 0.5, "kv_use": None}
    assert not math.isnan(flatten_metrics(summary)["ttft"])
