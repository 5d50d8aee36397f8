"""`python -m runners.execute` as a process: every end of a run, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from execution_runs import MODEL, TAG, Run, long, modelled_spec, spec

from runners.events import Log, Report, RequestRecord, Sample, Status, Step
from runners.processes import ATTEMPT_MARK, marked_processes
from runners.shapes import resolve
from runners.spec import ShapedModel


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start_run(document: Any, *arguments: str, **options: Any) -> Run:
        runs.append(Run(tmp_path, document, *arguments, **options))
        return runs[-1]

    yield start_run
    for run in runs:
        run.kill()


def left() -> list[psutil.Process]:
    return marked_processes(ATTEMPT_MARK, TAG)


def test_a_measured_run_tells_its_whole_story(start: Callable[..., Run], sample_model: Path) -> None:
    run = start(spec())
    report = run.report()
    assert report.outcome == "succeeded" and not report.modelled
    phases = [status.phase for status in run.of(Status) if status.phase != "starting"]
    assert phases == ["warming_up", "measuring", "draining", "done"]
    records = run.of(RequestRecord)
    assert [record.phase for record in records].count("measured") == 6
    assert all(record.status == "ok" and record.output_tokens == 6 for record in records)
    steps = run.of(Step)
    assert [step.index for step in steps] == list(range(1, len(steps) + 1))
    samples = run.of(Sample)
    assert sum(sample.steps for sample in samples) == len(steps)
    assert sum(sample.output_tokens for sample in samples) == sum(sum(record.token_counts) for record in records)
    assert sum(sample.finished for sample in samples) == len(records)
    for record in records:
        assert record.sent_s <= record.queued_s <= record.scheduled_first_s <= record.first_token_s
    assert report.facts["engine"] and report.facts["steps_dropped"] == 0
    assert report.facts["engine"]["prefix_cache"] == "empty: the server is new"
    before = report.facts["before_window"]
    warmup = [record for record in records if record.phase == "warmup"]
    assert before["warmup_requests"] == len(warmup) and before["warmup_s"] == report.window_start_s
    assert before["server_age_s"] > report.facts["engine"]["server_age_s"] + before["warmup_s"] > 0
    assert left() == []


def test_a_shape_is_measured_with_random_weights_and_no_file(start: Callable[..., Run], tmp_path: Path) -> None:
    shape = {"layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "vocab_size": 1000}
    ref = resolve(ShapedModel.model_validate({"shape": shape})).ref()
    document = spec(model=ref.model_dump(mode="json"), engine={"threads": 1, "weights": "int8"})
    document["workload"] = {**document["workload"], "kind": "synthetic"}
    run = start(document, models_dir=tmp_path / "none")
    report = run.report()
    assert report.outcome == "succeeded"
    assert report.facts["model"] == {"name": ref.name, "sha256": ref.sha256, "random_weights": True}
    records = run.of(RequestRecord)
    assert len(records) == 8 and all(record.status == "ok" and record.output_tokens == 6 for record in records)
    assert not (tmp_path / "none").exists()


def test_a_shape_that_is_not_what_the_run_was_frozen_with_is_refused(start: Callable[..., Run]) -> None:
    ref = resolve("llama-3-8b").ref().model_dump(mode="json")
    report = start(spec(model={**ref, "sha256": "0" * 64})).report()
    assert report.outcome == "failed" and "was frozen with SHA-256 000" in (report.error or "") and not report.retry


def test_a_modelled_run_says_that_it_is_modelled_and_needs_no_torch(start: Callable[..., Run]) -> None:
    report = start(modelled_spec(), "--modelled").report()
    assert report.outcome == "succeeded" and report.modelled
    assert report.facts["calibration"] == "calibrated" and report.facts["chip"] == "h100-sxm"
    source = "import sys, runners.execute; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source]).returncode == 0


@pytest.mark.parametrize("modelled", [[], ["--modelled"]])
@pytest.mark.parametrize("document", ["{", "[]", {"run_id": 1}])
def test_a_spec_that_cannot_be_read_is_reported_and_not_retried(
    start: Callable[..., Run], document: Any, modelled: list[str]
) -> None:
    report = start(document, *modelled).report()
    assert report.outcome == "failed" and not report.retry
    assert report.error is not None and "spec can't be read" in report.error


def test_a_model_that_is_not_registered_is_named_in_the_report_and_in_the_runs_log(start: Callable[..., Run]) -> None:
    run = start(spec(model={"name": "gpt-9", "sha256": "0", "shape": {}}))
    report = run.report()
    assert report.outcome == "failed" and not report.retry
    assert report.error is not None and "'gpt-9'" in report.error
    assert [(line.level, line.message) for line in run.of(Log)][-1] == ("error", report.error)


def test_a_model_file_with_another_hash_is_refused(
    start: Callable[..., Run], sample_model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "models" / sample_model.name
    other.parent.mkdir()
    content = bytearray(sample_model.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    report = start(spec(), models_dir=other.parent).report()
    assert report.outcome == "failed" and not report.retry
    assert report.error is not None and MODEL.sha256 in report.error


def test_a_chip_that_cannot_hold_the_model_is_no_reason_to_try_again(start: Callable[..., Run]) -> None:
    shape = dict(MODEL.shape) | {"layers": 10**7}
    document = modelled_spec(model={"name": MODEL.name, "sha256": MODEL.sha256, "shape": shape})
    report = start(document, "--modelled").report()
    assert report.outcome == "failed" and not report.retry and report.modelled


def test_a_chip_without_a_record_is_refused(start: Callable[..., Run]) -> None:
    report = start(spec(), "--modelled").report()
    assert report.error == "the run names no chip to model"


def test_sigterm_ends_server_and_load_and_leaves_the_report_to_the_agent(
    start: Callable[..., Run], sample_model: Path
) -> None:
    run = start(spec(workload=long(spec()["workload"])))
    run.wait_until_measuring()
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(15) == 128 + signal.SIGTERM
    assert run.of(Report) == []
    assert left() == []


def test_the_whole_group_ends_when_the_agents_pipe_closes(start: Callable[..., Run], sample_model: Path) -> None:
    run = start(spec(workload=long(spec()["workload"])))
    run.wait_until_measuring()
    assert len(left()) >= 3
    os.close(run.lifeline)
    assert run.process.wait(15) == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while left():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("module", "words"),
    [("runners.runtime.server", "in mid-run the server was killed by SIGKILL"),
     ("runners.load.client", "the load client was killed by SIGKILL")],
)  # fmt: skip
def test_a_child_that_is_killed_fails_the_run_with_a_retry(
    start: Callable[..., Run], sample_model: Path, module: str, words: str
) -> None:
    run = start(spec(workload=long(spec()["workload"])))
    run.wait_until_measuring()
    (victim,) = [process for process in left() if module in process.cmdline()]
    victim.kill()
    report = run.report(60)
    assert report.outcome == "failed" and report.retry
    assert report.error is not None and words in report.error
    assert left() == []


def test_log_lines_are_kept_but_bounded(start: Callable[..., Run], sample_model: Path) -> None:
    run = start(spec())
    run.report()
    assert len(run.of(Log)) <= 501
    assert {line.source for line in run.of(Log)} <= {"server", "client", "execute"}
