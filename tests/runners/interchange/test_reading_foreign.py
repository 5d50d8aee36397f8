"""Every known tool's file is read into runs of ours: loads, figures under our names, requests with exact times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foreign_files as files
import pytest

from runners.events import Report
from runners.interchange.differences import differences
from runners.interchange.errors import BadFile
from runners.interchange.frozen import run_spec
from runners.interchange.reading import read_file
from runners.interchange.results import ForeignFile, ForeignRun
from runners.metrics import summarize


def read(tmp_path: Path, content: Any) -> ForeignFile:
    path = tmp_path / "any name"
    text = content if isinstance(content, bytes) else content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(path)


def only(file: ForeignFile) -> ForeignRun:
    (run,) = file.runs()
    return run


def recomputed(run: ForeignRun) -> dict[str, Any]:
    assert run.records is not None and run.window is not None
    zero = run.window.start_s
    report = Report(outcome="succeeded", window_start_s=0.0, window_end_s=run.window.end_s - zero)
    spec = run_spec(run, run_id=1, experiment_id=1, trial_index=0, revision="r")
    return summarize(list(run.records()), [], report, spec).as_json()["metrics"]


def test_detailed_vllm_results_are_computed_anew_and_differ_where_vllm_says_something_else(tmp_path: Path) -> None:
    run = only(read(tmp_path, files.vllm()))
    metrics = recomputed(run)
    assert metrics["ttft"]["value"] == pytest.approx(0.2)
    assert metrics["itl"]["value"] == pytest.approx(0.01) and metrics["itl"]["n"] == 30 * 4
    assert metrics["output_throughput"]["value"] == pytest.approx(150 / 3.14)
    found = {(one.metric, one.statistic): one for one in differences(
        {name: figure.as_json() for name, figure in run.figures.items()}, metrics)}  # fmt: skip
    assert found["ttft", "median"].same and found["output_throughput", "value"].same
    wrong = found["tpot", "median"]
    assert not wrong.same and wrong.theirs == pytest.approx(0.011) and wrong.relative == pytest.approx(-1 / 11)
    assert run.load.max_concurrency == 2 and run.load.request_rate is None
    assert "effective_ttft" in run.unmeasured


def test_vllm_results_without_requests_keep_vllms_figures(tmp_path: Path) -> None:
    short = {key: value for key, value in files.vllm().items() if not isinstance(value, list)}
    run = only(read(tmp_path, short | {"request_rate": 4.0, "burstiness": 0.5}))
    assert run.records is None and "--save-detailed" in run.notes[0]
    assert run.figures["tpot"].value == pytest.approx(0.011)
    assert run.figures["tpot"].percentiles == pytest.approx({"p50": 0.011, "p99": 0.01})
    assert (run.load.request_rate, run.load.burstiness) == (4.0, 0.5)


def test_failed_vllm_requests_are_errors(tmp_path: Path) -> None:
    run = only(read(tmp_path, files.vllm(10, failed=2)))
    assert run.records is not None
    records = list(run.records())
    assert [record.status for record in records] == ["ok"] * 8 + ["error"] * 2
    assert records[-1].error == "boom" and records[-1].first_token_s is None
    assert run.failed == 2


def test_several_tokens_of_one_event_count_as_gaps_of_0(tmp_path: Path) -> None:
    run = only(read(tmp_path, files.vllm(output_lens=[9] * 30)))
    metrics = recomputed(run)
    assert metrics["itl"]["n"] == 30 * 8 and metrics["icl"]["n"] == 30 * 4


def test_aiperf_records_are_read_with_their_warm_up_and_due_times(tmp_path: Path) -> None:
    run = only(read(tmp_path, files.aiperf_jsonl()))
    assert run.records is not None
    records = list(run.records())
    assert [record.phase for record in records[:3]] == ["warmup", "warmup", "measured"]
    assert records[2].sent_s == 0.0 and records[2].scheduled_s == pytest.approx(-0.002)
    assert records[3].sent_s == 0.1 and records[3].finished_s == pytest.approx(0.34)
    metrics = recomputed(run)
    assert metrics["icl"]["value"] == pytest.approx(0.01) and metrics["requests_ok"]["value"] == 30
    assert run.load.num_requests == 30 and run.load.max_concurrency == 3
    assert run.unjudged == ("no_steady_state",)


def test_aiperfs_inter_token_latency_is_tpot_and_its_speeds_tail_is_the_slow_end(tmp_path: Path) -> None:
    file = read(tmp_path, files.aiperf_summary())
    run = only(file)
    assert file.version == "0.13.0"
    assert run.figures["tpot"].theirs == "inter_token_latency" and run.figures["tpot"].value == pytest.approx(0.01)
    assert run.figures["icl"].value == pytest.approx(0.009)
    assert run.figures["interactivity"].percentiles["p99"] == 50.0
    assert run.model == "org/model-a" and run.load.max_concurrency == 4
    assert "itl" not in run.figures


def test_guidellms_benchmarks_are_runs_and_its_time_per_output_token_is_not_tpot(tmp_path: Path) -> None:
    file = read(tmp_path, files.guidellm(30, errored=1))
    closed, open_ = file.runs()
    assert closed.load.max_concurrency == 2 and open_.load.request_rate == 9.5
    assert closed.figures["tpot"].value == pytest.approx(0.01)
    metrics = recomputed(closed)
    assert metrics["tpot"]["value"] == pytest.approx(0.01) and metrics["e2el"]["value"] == pytest.approx(0.24)
    assert metrics["itl"]["value"] is None
    assert metrics["requests_failed"]["value"] == 1
    assert recomputed(open_)["effective_ttft"]["value"] == pytest.approx(0.201)


def test_a_guidellm_report_with_a_sample_of_its_requests_keeps_its_own_figures(tmp_path: Path) -> None:
    report = files.guidellm()
    report["benchmarks"] = report["benchmarks"][:1]
    del report["benchmarks"][0]["requests"]["successful"][5:]
    run = only(read(tmp_path, report))
    assert run.records is None and run.load.num_requests == 30


def test_llm_d_reports_of_both_versions_are_read_by_their_tools_meaning(tmp_path: Path) -> None:
    first = only(read(tmp_path, files.LLM_D_0_1))
    assert first.figures["tpot"].value == pytest.approx(0.01) and first.figures["itl"].value == pytest.approx(0.009)
    assert first.figures["output_throughput"].value == 98.0 and first.failed == 2
    second = only(read(tmp_path, files.llm_d_0_2("guidellm")))
    assert second.figures["tpot"].theirs == "inter_token_latency" and "itl" not in second.figures
    third = only(read(tmp_path, files.llm_d_0_2("inference-perf")))
    assert third.figures["tpot"].theirs == "time_per_output_token"


def test_inferencex_rows_come_in_a_list_in_lines_or_alone(tmp_path: Path) -> None:
    rows = [files.inferencex_row(8), files.inferencex_row(16)]
    for content in (rows, "".join(json.dumps(row) + "\n" for row in rows)):
        first, second = read(tmp_path, content).runs()
        assert (first.settings["conc"], second.settings["conc"]) == (8, 16)
    one = only(read(tmp_path, rows[0]))
    assert one.figures["output_throughput"].value == 4000.0 and one.figures["interactivity"].value == 50.0
    assert one.figures["output_throughput_per_chip"].value == 500.0
    apart = only(read(tmp_path, files.inferencex_row(disagg=True)))
    assert "output_throughput" not in apart.figures


WRONG: list[tuple[Any, str]] = [
    (b"", "empty"),
    (b"hello: [", "line"),
    (b"{", "ends here"),
    (b'{"a": 1}', "no result file"),
    (b"[1, 2]", "InferenceX"),
    (b"[", "ends here"),
    (b'{"a": tru}', "no JSON"),
    (b"\xff\xfe\x00", "UTF-8"),
    (json.dumps({"hw": 1})[:-1].encode(), "ends here"),
    (files.vllm(itls=[[0.01]] * 29), "itls"),
    (files.vllm(ttfts=["x"] * 30), "ttfts[0]"),
    (files.vllm(itls=[[-0.01]] * 30), "itls[0][0]"),
    (files.vllm(output_lens=[1.5] * 30), "output_lens[0]"),
    (files.vllm(num_prompts="many"), "num_prompts"),
    (files.vllm(start_times={"a": 1}), "start_times"),
    (files.aiperf_jsonl() + b"{oops\n", "line 33"),
    (files.aiperf_jsonl() + b"[]\n", "line 33"),
    (files.aiperf_jsonl().replace(b'"unit": "ms"', b'"unit": "h"', 1), "line 1"),
    (files.LLM_D_0_1.replace("'0.1'", "'0.9'"), "version"),
    (files.LLM_D_0_1.replace("units: ms,", "units: h,"), "units"),
    (files.inferencex_row(conc=-1), "conc"),
    (b"[" * 100, "deep"),
]


@pytest.mark.parametrize(("content", "told"), WRONG)
def test_wrong_files_are_refused_with_the_place(tmp_path: Path, content: Any, told: str) -> None:
    with pytest.raises(BadFile) as refused:
        for run in read(tmp_path, content).runs():
            if run.records is not None:
                list(run.records())
    assert told in str(refused.value)
