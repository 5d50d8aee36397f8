"""A run that replays a trace, as a process: measured on the real model and modelled, and without its file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from execution_runs import Run, modelled_spec, spec

from runners.events import RequestRecord
from runners.traces.clipping import extent_of
from runners.traces.keeping import keep_trace
from runners.traces.kept_rows import kept_rows

BLOCK = 16
ROWS = [
    {"timestamp_s": 0.0, "input_tokens": 70, "output_tokens": 4, "prefix_ids": [1, 2, 3, 4, 5]},
    {"timestamp_s": 1.0, "input_tokens": 75, "output_tokens": 3, "prefix_ids": [1, 2, 3, 4, 6]},
    {"timestamp_s": 2.0, "input_tokens": 20, "output_tokens": 5, "class": "chat"},
]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start_run(document: Any, *arguments: str) -> Run:
        runs.append(Run(tmp_path, document, *arguments))
        return runs[-1]

    yield start_run
    for run in runs:
        run.kill()


def replaying(directory: Path, document: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The document with a trace whose file is in `directory`."""
    directory.mkdir()
    draft = directory / "draft"
    kept = keep_trace(io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode()), draft, block_tokens=BLOCK)
    path = draft.rename(directory / f"{kept.sha256}.jsonl")
    extent = extent_of(kept_rows(path, BLOCK))
    assert extent is not None
    workload = {
        "kind": "trace", "trace": {"name": "small", "time_scale": 0.5}, "arrival": {"kind": "recorded"},
        "warmup": {"num_requests": 1},
    }  # fmt: skip
    trace = {"name": "small", "sha256": kept.sha256, "bytes": kept.bytes, "block_tokens": BLOCK}
    return document | {"workload": workload, "trace": trace | {"extent": extent.model_dump(mode="json")}}


def measured_records(run: Run) -> list[RequestRecord]:
    records = [record for record in run.of(RequestRecord) if record.phase == "measured"]
    return sorted(records, key=lambda record: record.index)


@pytest.mark.parametrize("modelled", [False, True])
def test_a_trace_is_replayed_from_its_file_with_what_its_prompts_share(
    start: Callable[..., Run], tmp_path: Path, sample_model: Path, modelled: bool
) -> None:
    document = replaying(tmp_path / "traces", modelled_spec() if modelled else spec(), ROWS)
    run = start(document, "--traces", str(tmp_path / "traces"), *(["--modelled"] if modelled else []))
    report = run.report()
    assert report.outcome == "succeeded", report.error
    first, second, third = records = measured_records(run)
    assert [(record.input_tokens, record.output_tokens) for record in records] == [(70, 4), (75, 3), (20, 5)]
    assert second.scheduled_s - first.scheduled_s == pytest.approx(0.5, abs=1e-6)
    assert (first.cached_tokens, second.cached_tokens, third.cached_tokens) == (0, 64, 0)
    assert third.traffic_class == "chat"
    assert report.client["trace"]["requests"] == 3 and report.client["trace"]["clipped_requests"] == 0
    assert report.facts["trace"]["sha256"] == document["trace"]["sha256"]


def test_lengths_that_the_model_does_not_take_are_clipped_and_counted(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    rows = [{"timestamp_s": 0.1, "input_tokens": 100_000, "output_tokens": 3}, ROWS[2]]
    run = start(
        replaying(tmp_path / "traces", modelled_spec(), rows), "--modelled", "--traces", str(tmp_path / "traces")
    )
    report = run.report()
    assert report.outcome == "succeeded", report.error
    assert [record.status for record in measured_records(run)] == ["ok", "ok"]
    told = report.client["trace"]
    assert (told["clipped_requests"], told["clipped_prompts"], told["clipped_outputs"]) == (1, 1, 0)
    assert told["lost_input_tokens"] == 100_000 + 3 - modelled_spec()["model"]["shape"]["max_model_len"]


@pytest.mark.parametrize("change", ["gone", "other"])
def test_a_file_that_is_gone_or_another_is_told_and_may_be_fetched_again(
    start: Callable[..., Run], tmp_path: Path, change: str
) -> None:
    document = replaying(tmp_path / "traces", modelled_spec(), ROWS)
    path = tmp_path / "traces" / f"{document['trace']['sha256']}.jsonl"
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b"\n")
    report = start(document, "--modelled", "--traces", str(tmp_path / "traces")).report()
    assert report.outcome == "failed" and report.retry
    assert "trace small" in (report.error or "")
    assert not path.exists()
