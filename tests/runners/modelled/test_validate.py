"""Holding the cost model against a machine: what half of its runs tells predicts the others."""

from __future__ import annotations

import json

import pytest
from local_node import CHIP, run_of

from runners.events import Step
from runners.modelled import validate
from runners.modelled.local import fit_local
from runners.modelled.validate import Measured, compare, make_spec, predict


def measured(load: int, weights: str, steps: list[Step]) -> Measured:
    return Measured(make_spec(load, weights, 8), {"throughput": 90.0, "tpot": 0.03, "ttft_p50": 0.2}, steps, [])


def test_a_modelled_run_of_the_same_spec_gives_the_same_metrics_as_are_measured() -> None:
    found = predict(CHIP, make_spec(4, "bf16", 8), fit_local(CHIP, [run_of("bf16")]), intake_s=2e-3)
    assert found.keys() == {"throughput", "tpot", "ttft_p50"}
    # Four users, each a token a step: the throughput is below their number over a step's time.
    assert 0 < found["throughput"] < 4 / found["tpot"] * 1.01
    assert found["ttft_p50"] > found["tpot"]


def test_every_other_run_is_predicted_and_held_against_its_own_figures() -> None:
    runs = [measured(load, "bf16", list(run_of("bf16").steps)) for load in (1, 4, 12)]
    (line,) = compare(CHIP, runs)
    assert line["load"] == 4 and line["weights"] == "bf16"
    for name, value in line["measured"].items():
        assert line["error"][name] == pytest.approx(line["predicted"][name] / value - 1)


def test_the_table_gives_each_metric_its_median_and_worst_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"error": {"throughput": 0.1, "tpot": -0.2, "ttft_p50": sign * 0.3}} for sign in (1, -1)]
    monkeypatch.setattr(validate, "validate", lambda num_requests: lines)
    validate.main(["--node", "local"])
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[0]) == lines[0]
    assert "tpot         median error 20.0%, worst 20.0%" in out
