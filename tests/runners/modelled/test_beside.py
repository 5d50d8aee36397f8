"""The cost model's word on a run that a machine has measured: from its settings, and steps of earlier runs alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from local_node import CEILINGS, FACTS, SHAPE, run_of

from runners.modelled.beside import BesideRequest, EarlierRun, NotPredictable, answer, predict_beside
from runners.shapes import resolve
from runners.spec import RunSpec, ShapedModel

TINY = resolve(ShapedModel.model_validate({"shape": {"layers": 2, "hidden_size": 256, "heads": 4, "vocab_size": 1000}}))


def spec(**workload: Any) -> RunSpec:
    return RunSpec.model_validate({
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 5, "settings": {},
        "model": TINY.ref().model_dump(), "chip_id": "any", "engine": {}, "placement": {}, "slo": {}, "cost": {},
        "workload": {
            "kind": "synthetic",
            "input_len": {"dist": "fixed", "tokens": 64},
            "output_len": {"dist": "fixed", "tokens": 16},
            "arrival": {"kind": "closed", "max_concurrency": 4},
            "num_requests": 24,
            **workload,
        },
        "time_limit_s": 300, "code_revision": "test",
    })  # fmt: skip


def asked(*earlier: EarlierRun, **changes: Any) -> BesideRequest:
    values = {"spec": spec(), "facts": FACTS, "ceilings": CEILINGS, "num_blocks": 400, "earlier": earlier}
    return BesideRequest.model_validate(values | changes)


def earlier_run(weights: str = "bf16") -> EarlierRun:
    shape = {name: getattr(SHAPE, name) for name in SHAPE.__slots__}
    return EarlierRun(shape=shape, weights=weights, steps=tuple(run_of(weights).steps))


def test_without_an_earlier_run_the_prediction_is_uncalibrated_and_has_no_band() -> None:
    found = predict_beside(asked())
    assert found.state == "uncalibrated" and "no earlier run" in found.basis
    assert set(found.metrics) == {"output_throughput", "tpot", "ttft"}
    assert all(one.predicted > 0 and one.low is None and one.high is None for one in found.metrics.values())


def test_earlier_runs_calibrate_it_and_give_it_a_band() -> None:
    found = predict_beside(asked(earlier_run(), earlier_run("int8")))
    assert found.state == "calibrated" and "steps of 2 earlier valid runs of this node" in found.basis
    for one in found.metrics.values():
        assert one.low is not None and one.high is not None and one.low <= one.high
    changed = predict_beside(asked())
    assert found.metrics["tpot"].predicted != changed.metrics["tpot"].predicted


def test_a_rate_is_banded_as_the_inverse_of_the_times_it_is_made_of() -> None:
    metrics = predict_beside(asked(earlier_run())).metrics
    rate, time = metrics["output_throughput"], metrics["tpot"]
    assert rate.low is not None and rate.high is not None and time.low is not None and time.high is not None
    assert rate.predicted / rate.low == pytest.approx(time.high / time.predicted)
    assert rate.high / rate.predicted == pytest.approx(time.predicted / time.low)


def test_the_same_request_gives_the_same_prediction() -> None:
    assert predict_beside(asked(earlier_run())) == predict_beside(asked(earlier_run()))


def test_what_a_server_takes_outside_of_steps_delays_first_tokens() -> None:
    at_once, later = (predict_beside(asked(intake_s=intake_s)).metrics["ttft"] for intake_s in (0.0, 0.05))
    assert later.predicted > at_once.predicted + 0.04


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ceilings": {}}, "ceilings: were measured on None"),
        ({"facts": FACTS | {"memory": {}}}, "facts.memory.usable_bytes"),
        ({"num_blocks": 1}, "no request of the run came to an answer"),
    ],
)
def test_why_a_run_can_not_be_predicted_is_said(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(NotPredictable, match=told):
        predict_beside(asked(**changes))
    assert told in answer(asked(**changes).model_dump_json())["why_not"]


def program(request: BesideRequest, limit_s: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runners.modelled.beside", "--cpu-limit-s", str(limit_s)]
    return subprocess.run(command, input=request.model_dump_json(), capture_output=True, text=True, timeout=120)


def test_the_program_answers_in_json_and_loads_no_torch() -> None:
    ended = program(asked(), 60)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == answer(asked().model_dump_json())
    source = "import sys, runners.modelled.beside; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source]).returncode == 0


def test_the_program_ends_when_it_has_computed_for_long_enough() -> None:
    ended = program(asked(spec=spec(num_requests=1_000_000)), 3)
    assert ended.returncode < 0 and not ended.stdout
