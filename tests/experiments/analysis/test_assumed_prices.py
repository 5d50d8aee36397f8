"""Prices and power assumed for a view, and how the figures that rest on them are bounded and compared."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from experiments.analysis.assumed import Assumed, assume
from experiments.analysis.compare import RunResult, TrialResult, compare_trials, verdict_of
from experiments.analysis.intervals import mean_interval, reciprocal_interval
from runners.cost_figures import Output, energy_figures, price_figures


def result(number: int, tokens: float, node: str = "bench", source: str | None = "rapl") -> RunResult:
    output = Output(10.0, tokens, 50.0, 40.0)
    counts = {"window": 10.0, "output_tokens": tokens, "requests_ok": 50.0, "useful_answers": 40.0}
    values = counts | {"output_throughput": tokens / 10} | price_figures(output, 3.6) | energy_figures(output, 1000.0)
    return RunResult(number, number, node, False, True, (), int(tokens), values, energy_source=source)


def trial(number: int, *tokens: float, node: str = "bench", source: str | None = "rapl") -> TrialResult:
    runs = tuple(result(repeat, count, node, source) for repeat, count in enumerate(tokens))
    return TrialResult(number, 1, {"engine.max_num_seqs": number}, runs)


def test_cost_and_energy_are_of_the_window_over_what_came_out_of_it() -> None:
    output = Output(window_s=3600.0, output_tokens=2_000_000, requests=1000, useful=500)
    assert price_figures(output, 4.0) == {
        "output_tokens_per_usd": 500_000.0, "cost_per_million_output_tokens": 2.0, "cost_per_useful_answer": 0.008,
    }  # fmt: skip
    found = energy_figures(output, 3.6e6)
    assert found["mean_power"] == 1000.0
    assert found["energy_per_million_output_tokens"] == pytest.approx(1.8e6)
    assert found["energy_per_useful_answer"] == 7200.0
    assert set(price_figures(Output(10.0, 0, 0, None), 4.0).values()) == {None, 0.0}
    assert set(energy_figures(output, None).values()) == {None}
    assert price_figures(replace(output, useful=None), 4.0)["cost_per_useful_answer"] is None


def test_a_price_and_a_power_change_what_rests_on_them_alone_and_say_so() -> None:
    (found,) = assume([trial(1, 1000, 1000)], Assumed({"bench": 7.2}, {"bench": 200.0}))
    (before,) = [trial(1, 1000, 1000)]
    run, stored = found.runs[0], before.runs[0]
    assert run.values["cost_per_million_output_tokens"] == pytest.approx(20.0)
    assert stored.values["cost_per_million_output_tokens"] == pytest.approx(10.0)
    assert run.values["mean_power"] == 200.0 and run.values["energy_per_output_token"] == 2.0
    assert run.values["output_throughput"] == stored.values["output_throughput"]
    assert run.energy_source == "assumed"
    metrics = compare_trials([found])["trials"][0]["metrics"]
    told = {name for name, metric in metrics.items() if metric["assumed"]}
    assert "cost_per_useful_answer" in told and "mean_power" in told and "output_throughput" not in told


def test_nothing_is_assumed_of_another_node() -> None:
    trials = [trial(1, 1000, 1000)]
    assert assume(trials, Assumed({"elsewhere": 7.2}, {})) == trials


def test_energy_of_two_sources_is_never_called_a_difference() -> None:
    trials = [trial(1, 1000, 1001, 999), trial(2, 4000, 4001, 3999, node="other")]
    rows = compare_trials(assume(trials, Assumed({}, {"other": 900.0})))["differences"]
    energy = next(row for row in rows if row["metric"] == "energy_per_output_token")
    assert energy["mixes_energy"] == "assumed and rapl"
    assert not energy["is_difference"]
    assert verdict_of(energy) == "not comparable: energy assumed and rapl"
    throughput = next(row for row in rows if row["metric"] == "output_throughput")
    assert throughput["mixes_energy"] is None and not throughput["assumed"]


def test_a_cost_has_the_interval_of_the_throughput_turned_over() -> None:
    throughputs = [100.0, 104.0, 97.0]
    costs = [3.6 / 3600 / value * 1e6 for value in throughputs]
    found, of_throughput = reciprocal_interval(costs), mean_interval(throughputs)
    assert of_throughput.low is not None and of_throughput.high is not None
    assert found.low == pytest.approx(1000 / of_throughput.high)
    assert found.high == pytest.approx(1000 / of_throughput.low)
    assert reciprocal_interval([5.0]).low is None
    assert reciprocal_interval([0.1, 100.0]).low is None
    assert reciprocal_interval([0.0, 0.0]).estimate == 0.0


def test_modelled_energy_by_assumed_watts_has_the_band_of_the_throughput() -> None:
    rate = {"low": -0.1, "high": 0.2, "n": 50, "scope": "test"}
    errors = {"rate": rate, "energy": {"low": -1.0, "high": 1.0, "n": 5, "scope": "test"}}
    runs = tuple(replace(run, modelled=True, model_errors=errors) for run in trial(1, 1000, source="modelled").runs)
    stored = replace(trial(1), runs=runs)
    (found,) = assume([stored], Assumed({}, {"bench": 200.0}))
    energy = compare_trials([found])["trials"][0]["metrics"]["energy_per_output_token"]
    assert energy["low"] == pytest.approx(2.0 * math.exp(-0.2)) and energy["high"] == pytest.approx(2.0 * math.exp(0.1))
    before = compare_trials([stored])["trials"][0]["metrics"]["energy_per_output_token"]
    assert before["high"] == pytest.approx(1.0 * math.exp(1.0))
