"""The traces of a node: fetched once, whole and as frozen, or the run is reported with why not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_lab import ScriptedLab

from runners import models
from runners.agent import traces
from runners.agent.control import ControlError, ControlPlane, Refused, Unreachable, WrongAddress
from runners.agent.traces import TraceNotHad, have_trace
from runners.execution.trace_file import trace_path
from runners.spec import RunSpec

CONTENT = b'{"timestamp_s":0.0,"input_tokens":8,"output_tokens":2}\n'
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def run_spec(**changes: Any) -> RunSpec:
    model = models.get("smollm2-135m-instruct")
    extent = {"requests": 1, "lasts_s": 0, "longest_input": 8, "longest_output": 2, "longest": 10, "input_tokens": 8,
              "output_tokens": 2}  # fmt: skip
    trace = {"name": "small", "sha256": SHA256, "bytes": len(CONTENT), "block_tokens": 512, "extent": extent}
    return RunSpec.model_validate({
        "run_id": 5, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 1, "settings": {}, "chip_id": "any",
        "model": {"name": model.name, "sha256": model.sha256, "shape": dict(model.shape)}, "engine": {},
        "placement": {}, "slo": {}, "cost": {}, "time_limit_s": 60, "code_revision": "test",
        "workload": {"kind": "trace", "trace": {"name": "small"}, "arrival": {"kind": "recorded"}},
        "trace": trace | changes,
    })  # fmt: skip


@pytest.fixture
def lab() -> Iterator[ScriptedLab]:
    lab = ScriptedLab()
    yield lab
    lab.close()


@pytest.fixture
def control(lab: ScriptedLab) -> ControlPlane:
    return ControlPlane(lab.url, "token", timeout_s=5)


def test_a_trace_is_fetched_once_and_kept_by_its_hash(lab: ScriptedLab, control: ControlPlane, tmp_path: Path) -> None:
    lab.answers = [(200, CONTENT), (500, b"not asked again")]
    for _ in range(2):
        have_trace(run_spec(), tmp_path / "traces", control)
    assert trace_path(tmp_path / "traces", SHA256).read_bytes() == CONTENT
    assert lab.paths == [f"/api/v1/node/traces/{SHA256}"]


@pytest.mark.parametrize(
    ("answer", "error", "retry"),
    [
        ((200, CONTENT[:-1] + b" "), TraceNotHad, True),
        ((200, CONTENT + b"more"), WrongAddress, False),
        ((404, {"detail": "no run of this node replays such a trace", "errors": []}), Refused, False),
        ((503, b"starting"), Unreachable, True),
        (None, Unreachable, True),
    ],
)
def test_what_is_not_the_frozen_trace_is_not_kept(
    lab: ScriptedLab, control: ControlPlane, tmp_path: Path, answer: Any, error: type[Exception], retry: bool
) -> None:
    lab.answers = [answer]
    with pytest.raises(error) as refused:
        have_trace(run_spec(), tmp_path, control)
    assert isinstance(refused.value, ControlError | TraceNotHad) and refused.value.retry is retry
    assert list(tmp_path.iterdir()) == []


def test_the_traces_used_longest_ago_make_room(
    lab: ScriptedLab, control: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "KEPT", 3)
    for age, name in enumerate("abc"):
        path = trace_path(tmp_path, name * 64)
        path.write_bytes(b"")
        os.utime(path, (1000 - age, 1000 - age))
    lab.answers = [(200, CONTENT)]
    have_trace(run_spec(), tmp_path, control)
    assert {path.name[0] for path in tmp_path.iterdir()} == {"a", "b", SHA256[0]}
