"""The load client against a server of scripted timings under a virtual clock: counts and times are exact, and so are
the figures computed of them. All times are binary fractions, so that floats hold them as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from golden_server import DONE, HEADERS, Answer, Lines, event, events, in_chunk, load_golden, text, tokens, usage

from runners.events import Report, RequestRecord
from runners.load.drive import PAUSE_AFTER_ERROR_S, LoadResult
from runners.load.plan import make_plan
from runners.load.prompts import SyntheticPrompts
from runners.metrics import Summary, summarize
from runners.spec import ModelRef, RunSpec, WorkloadSpec

Answers = Callable[[str], Answer]

# Headers at 1/8 s, tokens at 1/2, 5/8, 3/4 and 1 s.
STEADY = events(
    (0.5, tokens(1)), (0.625, tokens(1)), (0.75, tokens(1)), (1.0, tokens(1, "length")),
    (1.0, usage(6, 4)), (1.0, DONE),
    headers_s=0.125, end_s=1.0,
)  # fmt: skip


def workload(**changes: Any) -> WorkloadSpec:
    fields: dict[str, Any] = {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": 1},
        "input_len": {"dist": "fixed", "tokens": 6},
        "output_len": {"dist": "fixed", "tokens": 4},
        "num_requests": 4,
        "warmup": {"num_requests": 0},
        **changes,
    }
    return WorkloadSpec.model_validate(fields)


def load(
    answers: Answers | Answer, timeout_s: float = 1000.0, **changes: Any
) -> tuple[list[RequestRecord], LoadResult, Lines]:
    """The records in the order of the requests, the result, and every line."""
    script = answers if callable(answers) else lambda _: answers
    plan = make_plan(workload(**changes), 1, SyntheticPrompts(1, range(100)))
    result, lines, _ = load_golden(plan, lambda name, _: script(name), timeout_s)
    found = [line["record"] for line in lines if line["type"] == "request"]
    return sorted(found, key=lambda record: record.index), result, lines


def one(answer: Answer, timeout_s: float = 1000.0) -> RequestRecord:
    (record,), _, _ = load(answer, timeout_s, num_requests=1)
    return record


def summary_of(records: list[RequestRecord], result: LoadResult, slo: Mapping[str, float], **changes: Any) -> Summary:
    shape = {"layers": 2, "hidden_size": 8, "heads": 2, "kv_heads": 1, "head_dim": 4, "ffn": 16, "vocab_size": 100}
    spec = {
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 1, "settings": {}, "chip_id": "any",
        "model": ModelRef(name="tiny", sha256="0", shape=shape), "engine": {}, "placement": {}, "cost": {},
        "workload": workload(**changes), "slo": dict(slo), "time_limit_s": 60, "code_revision": "test",
    }  # fmt: skip
    report = Report(outcome="succeeded", window_start_s=result.window_start_s, window_end_s=result.window_end_s)
    return summarize(records, [], report, RunSpec.model_validate(spec))


def test_every_time_of_a_stream_is_the_servers() -> None:
    record = one(STEADY)
    assert (record.scheduled_s, record.sent_s, record.headers_s) == (0.0, 0.0, 0.125)
    assert (record.first_token_s, record.finished_s) == (0.5, 1.0)
    assert (record.token_times_s, record.token_counts) == ([0.5, 0.625, 0.75, 1.0], [1, 1, 1, 1])
    assert (record.input_tokens, record.output_tokens, record.cached_tokens, record.status) == (6, 4, 0, "ok")


def test_an_event_arrives_with_its_last_byte() -> None:
    whole = tokens(1)
    answer = Answer(
        [
            (0.125, HEADERS),
            (0.25, in_chunk(whole[:7])),
            (0.5, in_chunk(whole[7:-1])),
            (0.75, in_chunk(whole[-1:] + tokens(2) + tokens(1, "length")[:-2])),
            (1.0, in_chunk(b"\n\n" + usage(6, 4) + DONE) + b"0\r\n\r\n"),
        ]
    )
    record = one(answer)
    assert (record.token_times_s, record.token_counts) == ([0.75, 0.75, 1.0], [1, 2, 1])
    assert (record.headers_s, record.status) == (0.125, "ok")


def test_a_server_that_counts_no_tokens_is_corrected_by_its_usage() -> None:
    record = one(
        events(
            (0.5, text("")), (0.5, text("one ")), (1.0, text("two three")), (1.0, text("", "stop")),
            (1.0, usage(11, 7, 4)), (1.0, DONE), end_s=1.0,
        )
    )  # fmt: skip
    assert (record.token_times_s, record.token_counts) == ([0.5, 1.0], [1, 1])
    assert (record.input_tokens, record.output_tokens, record.cached_tokens) == (11, 7, 4)
    assert record.finish_reason == "stop"


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (events((0.5, tokens(1)), (0.75, event({"error": {"message": "no memory"}}))), "error", "no memory"),
        (events((0.5, tokens(1)), (0.75, DONE), end_s=0.75), "error", "without a finish_reason"),
        (Answer([(0.0, HEADERS), (0.5, in_chunk(tokens(1)))], drops_s=0.75), "error", "ClientPayloadError"),
        (events((0.5, tokens(1))), "timeout", "not finished within 8 s"),
    ],
)
def test_what_arrived_before_a_failure_is_kept(answer: Answer, status: str, error: str) -> None:
    record = one(answer, timeout_s=8.0)
    assert record.status == status and error in (record.error or "")
    assert (record.first_token_s, record.token_counts, record.finished_s) == (0.5, [1], None)


def test_a_failure_and_a_timeout_end_when_they_happen() -> None:
    broken = events((0.5, tokens(1)), (0.75, event({"error": {"message": "no memory"}})))
    answers = {"measured-0": broken, "measured-1": events((0.5, tokens(1)))}
    records, result, _ = load(lambda name: answers.get(name, STEADY), timeout_s=8.0, num_requests=3)
    # The user pauses after each failure: at 0.75 s, and 8 s after the second was sent.
    sent = [0.0, 0.75 + PAUSE_AFTER_ERROR_S, 1.0 + 8.0 + PAUSE_AFTER_ERROR_S]
    assert [record.sent_s for record in records] == sent
    assert [record.status for record in records] == ["error", "timeout", "ok"]
    assert result.window_end_s == sent[-1] + 1.0


def test_a_closed_loop_keeps_its_users_busy_to_the_moment() -> None:
    records, result, lines = load(STEADY, num_requests=6, arrival={"kind": "closed", "max_concurrency": 2})
    assert [record.sent_s for record in records] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert (result.window_start_s, result.window_end_s) == (0.0, 3.0)
    ticks = [line for line in lines if line["type"] == "tick" and line["interval_s"] > 0]
    assert [tick["t_s"] for tick in ticks] == [0.25 * place for place in range(1, 13)]
    assert sum(tick["output_tokens"] for tick in ticks) == 24


def test_an_open_loop_sends_on_schedule_through_a_stall() -> None:
    stalled = events((64.0, tokens(4, "length")), (64.0, usage(6, 4)), (64.0, DONE), end_s=64.0)
    changes = {"num_requests": 20, "arrival": {"kind": "open", "request_rate": 4.0}}
    records, result, _ = load(stalled, **changes)
    arrivals = make_plan(workload(**changes), 1, SyntheticPrompts(1, range(100))).arrivals("measured")
    assert arrivals is not None
    due = [next(arrivals) for _ in records]
    assert [record.scheduled_s for record in records] == due
    # Timers are kept to the nanosecond.
    assert [record.sent_s for record in records] == pytest.approx(due, abs=2e-9)
    assert result.window_end_s == pytest.approx(due[-1] + 64.0, abs=2e-9)


def test_a_window_by_time_ends_on_time_and_the_rest_drains() -> None:
    records, result, _ = load(STEADY, num_requests=None, duration_s=2.5)
    assert (result.window_start_s, result.window_end_s) == (0.0, 2.5)
    assert [record.sent_s for record in records] == [0.0, 1.0, 2.0]
    assert records[-1].finished_s == 3.0


def test_warm_up_is_over_when_the_window_opens() -> None:
    records, result, _ = load(STEADY, warmup={"num_requests": 2}, num_requests=2)
    assert [record.phase for record in records] == ["warmup", "warmup", "measured", "measured"]
    assert (result.window_start_s, result.window_end_s) == (2.0, 4.0)


def test_the_figures_are_exact() -> None:
    several = events(
        (0.25, tokens(1)), (0.5, tokens(3)), (2.5, tokens(1, "length")), (2.5, usage(6, 5)), (2.5, DONE),
        headers_s=0.125, end_s=2.5,
    )  # fmt: skip
    broken = events((0.5, tokens(1)), (0.75, event({"error": {"message": "no memory"}})))
    answers = {"measured-1": several, "measured-2": broken}
    records, result, _ = load(lambda name: answers.get(name, STEADY))
    # 1 s + 2.5 s + 0.75 s and the pause of 0.25 s + 1 s
    assert (result.window_start_s, result.window_end_s) == (0.0, 5.5)
    found = summary_of(records, result, {"ttft_s": 0.5, "e2el_s": 1.0}).metrics
    value = {name: metric.value for name, metric in found.items()}
    assert value["output_throughput"] == 13 / 5.5
    assert value["total_throughput"] == (13 + 3 * 6) / 5.5
    assert value["request_throughput"] == 3 / 5.5
    assert (value["requests_failed"], value["window"]) == (1.0, 5.5)
    # Two of four met the SLO: the stalled one took too long, the broken one failed.
    assert (value["goodput"], value["goodput_share"], value["token_goodput"]) == (2 / 5.5, 0.5, 8 / 5.5)
    assert (value["ttft"], found["ttft"].n) == (0.5, 3)
    assert value["e2el"] == 1.0
    assert value["tpot"] == np.median([0.5 / 3, 2.25 / 4, 0.5 / 3])
    gaps = [0.125, 0.125, 0.25] * 2 + [0.25, 0.0, 0.0, 2.0]
    assert (value["itl"], found["itl"].n) == (np.median(gaps), 10)
    assert found["itl"].percentiles["p99"].value == np.percentile(gaps, 99)
    assert value["icl"] == np.median([0.125, 0.125, 0.25] * 2 + [0.25, 2.0])
    # In flight but for the pause; the broken one counts to the window's end, as nobody knows when it ended.
    assert value["concurrency"] == (1.0 + 2.5 + (5.5 - 3.5) + 1.0) / 5.5
