"""A run that goes out as another tool's file comes in again with the same figures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import foreign_files as files
import pytest

from runners.events import Report, RequestRecord
from runners.interchange.frozen import run_spec
from runners.interchange.reading import read_file
from runners.interchange.results import ForeignRun
from runners.interchange.writing import aiperf_bytes, vllm_bytes
from runners.metrics import summarize

KEPT = ("ttft", "tpot", "icl", "itl", "e2el", "output_throughput", "requests_ok", "requests_failed", "input_tokens")


def read(tmp_path: Path, pieces: Iterable[bytes]) -> ForeignRun:
    path = tmp_path / f"file{len(list(tmp_path.iterdir()))}"  # the first is read anew while the second is written
    path.write_bytes(b"".join(pieces))
    (run,) = read_file(path).runs()
    return run


def figures(run: ForeignRun) -> dict[str, float | None]:
    assert run.records is not None and run.window is not None
    report = Report(outcome="succeeded", window_start_s=0.0, window_end_s=run.window.end_s - run.window.start_s)
    spec = run_spec(run, run_id=1, experiment_id=1, trial_index=0, revision="r")
    metrics = summarize(list(run.records()), [], report, spec).metrics
    return {name: metrics[name].value for name in KEPT}


@pytest.fixture
def original(tmp_path: Path) -> ForeignRun:
    return read(tmp_path, [json.dumps(files.vllm(40, failed=1)).encode()])


def records_of(run: ForeignRun) -> list[RequestRecord]:
    assert run.records is not None
    return list(run.records())


def test_vllms_file_of_a_run_has_its_requests_and_its_figures(tmp_path: Path, original: ForeignRun) -> None:
    records = records_of(original)
    report = Report(outcome="succeeded", window_start_s=0.0, window_end_s=4.14)
    spec = run_spec(original, run_id=1, experiment_id=1, trial_index=0, revision="r")
    metrics = summarize(records, [], report, spec).as_json()["metrics"]
    about = {"model_id": "m", "request_rate": "inf", "max_concurrency": 2, "burstiness": 1.0}
    again = read(tmp_path, vllm_bytes(lambda: records, about, metrics))
    assert figures(again) == pytest.approx(figures(original), nan_ok=True)
    assert again.figures["output_throughput"].value == pytest.approx(metrics["output_throughput"]["value"])
    assert again.failed == 1


def test_aiperfs_records_of_a_run_have_its_requests(tmp_path: Path, original: ForeignRun) -> None:
    records = records_of(original)
    again = read(tmp_path, aiperf_bytes(lambda: records, files.BASE_NS))
    found, expected = figures(again), figures(original)
    for name in KEPT:
        if name not in ("output_throughput", "input_tokens"):
            assert found[name] == pytest.approx(expected[name], rel=1e-6), name
    # the failed request has no input length there, and the window ends with the last request
    assert found["requests_ok"] == 39


def test_a_modelled_run_is_one_in_other_tools_files_too(tmp_path: Path, original: ForeignRun) -> None:
    records = records_of(original)
    about = {"model_id": "m", "request_rate": "inf", "max_concurrency": 2, "burstiness": 1.0, "modelled": True}
    metrics = {name: {"value": 4.0} for name in ("window", "request_throughput", "requests_ok")}
    assert read(tmp_path, vllm_bytes(lambda: records, about, metrics)).modelled
    assert read(tmp_path, aiperf_bytes(lambda: records, files.BASE_NS, modelled=True)).modelled
    assert not original.modelled and not read(tmp_path, aiperf_bytes(lambda: records, files.BASE_NS)).modelled


def test_a_run_without_requests_makes_a_file_without_any(tmp_path: Path) -> None:
    content = b"".join(vllm_bytes(lambda: [], {"model_id": "m"}, {}))
    assert json.loads(content)["ttfts"] == []
    assert b"".join(aiperf_bytes(lambda: [], 0)) == b""
