"""A trace as a load: its rows in their order and at their times, equal blocks as equal tokens, lengths that fit."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modelled_engine import make_executor
from pydantic import ValidationError

from runners import models
from runners.chips import load_catalog
from runners.events import AnyEvent, RequestRecord
from runners.load import virtual
from runners.load.planned import PlannedRequest
from runners.load.prompts import SyntheticPrompts
from runners.load.trace_plan import TracePlan, TraceSource
from runners.modelled.executor import build_engine
from runners.modelled.fleet import one_engine
from runners.spec import CostSpec, EngineSpec, ModelRef, PlacementSpec, RunSpec, SloSpec, TraceRef, WorkloadSpec
from runners.traces.clipping import clip, extent_of
from runners.traces.keeping import keep_trace
from runners.traces.kept_rows import cut_rows, kept_rows

H100 = next(chip for chip in load_catalog() if chip.chip_id == "h100-sxm")
MODEL = models.get("smollm2-135m-instruct")
RECORDED = {"kind": "recorded"}


def row(t: float, i: int, o: int, **more: Any) -> dict[str, Any]:
    return {"timestamp_s": t, "input_tokens": i, "output_tokens": o, **more}


ROWS = [row(0, 40, 4), row(0.5, 30, 2), row(0.5, 20, 3), row(4, 10, 5), row(9.25, 60, 1)]


def workload(arrival: dict[str, Any] | None = None, **trace: Any) -> WorkloadSpec:
    fields = {"kind": "trace", "trace": {"name": "small", **trace}, "arrival": arrival or RECORDED}
    return WorkloadSpec.model_validate({**fields, "warmup": {"num_requests": 2}})


def source_of(
    tmp_path: Path, rows: list[dict[str, Any]], load: WorkloadSpec, max_model_len: int = 1000, block: int = 16
) -> TraceSource:
    path = tmp_path / "kept.jsonl"
    kept = keep_trace(io.BytesIO("".join(json.dumps(one) + "\n" for one in rows).encode()), path, block_tokens=block)
    assert load.trace is not None
    extent = extent_of(cut_rows(kept_rows(path, block), load.trace), load.trace.start_s)
    assert extent is not None
    ref = TraceRef(name="small", sha256=kept.sha256, bytes=kept.bytes, block_tokens=block, extent=extent)
    return TraceSource(path, ref, max_model_len)


def plan_of(tmp_path: Path, rows: list[dict[str, Any]], load: WorkloadSpec, **options: Any) -> TracePlan:
    return TracePlan(load, 5, SyntheticPrompts(5, range(1000)), source_of(tmp_path, rows, load, **options))


def measured(plan: TracePlan) -> list[PlannedRequest]:
    return list(plan.requests("measured"))


def play(tmp_path: Path, rows: list[dict[str, Any]], load: WorkloadSpec) -> tuple[Any, list[RequestRecord]]:
    source = source_of(tmp_path, rows, load, max_model_len=int(MODEL.shape["max_model_len"]))
    spec = RunSpec(
        run_id=1, experiment_id=1, trial_index=0, repeat=0, seed=3, settings={}, chip_id=H100.chip_id,
        model=ModelRef(name=MODEL.name, sha256=MODEL.sha256, shape=MODEL.shape), engine=EngineSpec(),
        placement=PlacementSpec(), workload=load, trace=source.ref, slo=SloSpec(), cost=CostSpec(), time_limit_s=900,
        code_revision="test",
    )  # fmt: skip
    executor = make_executor(H100, spec.model.shape, spec.engine)
    events: list[AnyEvent] = []
    engine = one_engine(build_engine(executor, spec.engine), executor.clock)
    result = virtual.run(spec, engine, events.extend, trace=source)
    records = [event for event in events if isinstance(event, RequestRecord) and event.phase == "measured"]
    return result, sorted(records, key=lambda record: record.index)


@pytest.mark.parametrize("scale", [1.0, 0.25, 3.0])
def test_requests_go_exactly_when_they_were_recorded_scaled(tmp_path: Path, scale: float) -> None:
    result, records = play(tmp_path, ROWS, workload(time_scale=scale))
    sent_s = [record.scheduled_s - result.window_start_s for record in records]
    assert sent_s == pytest.approx([scale * one["timestamp_s"] for one in ROWS], abs=1e-9)
    assert [record.sent_s for record in records] == [record.scheduled_s for record in records]
    assert [(record.input_tokens, record.output_tokens) for record in records] == [
        (one["input_tokens"], one["output_tokens"]) for one in ROWS
    ]
    assert result.client["trace"]["requests"] == len(ROWS) and result.client["trace"]["clipped_requests"] == 0


def test_a_closed_load_replays_the_rows_as_fast_as_they_are_answered(tmp_path: Path) -> None:
    result, records = play(tmp_path, ROWS, workload({"kind": "closed", "max_concurrency": 1}))
    assert [record.input_tokens for record in records] == [one["input_tokens"] for one in ROWS]
    assert [later.sent_s for later in records[1:]] == [earlier.finished_s for earlier in records[:-1]]
    assert result.window_end_s == records[-1].finished_s


def test_a_cut_takes_rows_by_time_and_by_count_and_begins_at_its_own_zero(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ROWS, workload(start_s=0.25, seconds=5))
    assert [len(request.prompt_ids) for request in plan.requests("measured")] == [30, 20, 10]
    times = plan.arrivals("measured")
    assert times is not None and list(times) == [0.25, 0.25, 3.75]
    assert [len(r.prompt_ids) for r in measured(plan_of(tmp_path, ROWS, workload(num_requests=2)))] == [40, 30]


def test_equal_block_ids_are_equal_tokens_and_others_differ(tmp_path: Path) -> None:
    rows = [
        row(0, 48, 1, prefix_ids=[7, 8, 9]), row(1, 40, 1, prefix_ids=[7, 8, 4]), row(2, 33, 1, prefix_ids=[1]),
        row(3, 40, 1),
    ]  # fmt: skip
    first, second, third, fourth = (request.prompt_ids for request in measured(plan_of(tmp_path, rows, workload())))
    assert first[:32] == second[:32] and first[32:40] != second[32:40]
    assert [len(ids) for ids in (first, second, third, fourth)] == [48, 40, 33, 40]
    assert len({ids[:16] for ids in (first, third, fourth)}) == 3


def test_a_replay_that_hits_the_blocks_its_rows_share_is_not_contaminated(tmp_path: Path) -> None:
    rows = [row(t, 80, 4, prefix_ids=[1, 2, 3, 4, t + 5]) for t in range(30)]
    result, records = play(tmp_path, rows, workload())
    assert sum(record.cached_tokens or 0 for record in records) > 0.5 * sum(r.input_tokens or 0 for r in records)
    assert result.client["trace"]["shared_tokens"] == 30 * 80
    alone, cold = play(tmp_path, [row(t, 80, 4) for t in range(30)], workload())
    assert alone.client["trace"]["shared_tokens"] == 0 and not any(record.cached_tokens for record in cold)


def test_prompts_of_a_session_begin_alike_and_those_of_others_do_not(tmp_path: Path) -> None:
    rows = [row(0, 20, 1, session="a"), row(1, 700, 1, session="a"), row(2, 700, 1, session="b")]
    one, more, other = (request.prompt_ids for request in measured(plan_of(tmp_path, rows, workload())))
    assert more[:20] == one and len(more) == 700
    assert other[:16] != more[:16]


def test_the_warm_up_has_the_first_rows_lengths_and_shares_nothing_with_what_is_measured(tmp_path: Path) -> None:
    rows = [row(t, 32, 2, prefix_ids=[1, 2]) for t in range(5)]
    plan = plan_of(tmp_path, rows, workload())
    warmup, sent = list(plan.requests("warmup")), measured(plan)
    assert [request.number for request in (*warmup, *sent)] == list(range(7))
    assert [len(request.prompt_ids) for request in warmup] == [32, 32]
    assert not {request.prompt_ids[:16] for request in warmup} & {request.prompt_ids[:16] for request in sent}


def test_the_same_seed_gives_the_same_plan_and_another_seed_other_tokens(tmp_path: Path) -> None:
    load = workload()
    source = source_of(tmp_path, ROWS, load)
    plans = [list(TracePlan(load, s, SyntheticPrompts(s, range(99)), source).requests("measured")) for s in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


def test_what_is_clipped_is_counted_and_the_prompt_gives_way_first(tmp_path: Path) -> None:
    rows = [row(0, 90, 20), row(1, 30, 90), row(2, 500, 500), row(3, 50, 50)]
    plan = plan_of(tmp_path, rows, workload(), max_model_len=100)
    lengths = [(len(request.prompt_ids), request.params.max_tokens) for request in measured(plan)]
    assert lengths == [(80, 20), (30, 70), (50, 50), (50, 50)]
    assert plan.facts == {
        "requests": 4, "clipped_requests": 3, "clipped_prompts": 2, "clipped_outputs": 2,
        "lost_input_tokens": 460, "lost_output_tokens": 470, "shared_tokens": 0,
    }  # fmt: skip


@given(st.integers(1, 300), st.integers(1, 300), st.integers(2, 200))
def test_clipped_lengths_always_fit_and_are_only_touched_where_they_did_not(i: int, o: int, most: int) -> None:
    clipped_i, clipped_o = clip(i, o, most)
    assert 1 <= clipped_i <= i and 1 <= clipped_o <= o and clipped_i + clipped_o <= most
    if i + o <= most:
        assert (clipped_i, clipped_o) == (i, o)


def test_a_plan_never_holds_the_whole_file(tmp_path: Path) -> None:
    rows = [row(t, 8, 1) for t in range(20_000)]
    load = workload()
    source = source_of(tmp_path, rows, load)
    requests = TracePlan(load, 1, SyntheticPrompts(1, range(9)), source).requests("measured")
    first = [next(requests) for _ in range(3)]
    assert [request.number for request in first] == [2, 3, 4]
    lines = source.path.read_bytes().splitlines(keepends=True)
    source.path.write_bytes(b"".join(lines[:10_000]))
    assert first[-1].number + sum(1 for _ in requests) == 10_001, "the file is read while requests are asked for"


# The document


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_requests": 5}, "num_requests"),
        ({"duration_s": 5}, "duration_s"),
        ({"input_len": {"dist": "fixed", "tokens": 7}}, "input_len"),
        ({"output_len": {"dist": "fixed", "tokens": 7}}, "output_len"),
        ({"shared_prefix": {"groups": 2, "prefix_tokens": 64}}, "shared_prefix"),
        ({"trace": None}, "trace"),
        ({"kind": "text", "num_requests": 4}, "arrival.kind"),
        ({"arrival": {"kind": "stages", "stages": [{"duration_s": 5, "request_rate": 1}]}}, "arrival.kind"),
        ({"trace": {"name": "../etc/passwd"}}, "name"),
        ({"trace": {"name": "x", "time_scale": 0}}, "time_scale"),
        ({"trace": {"name": "x", "path": "/etc/passwd"}}, "path"),
    ],
)
def test_what_a_trace_says_itself_is_refused_by_its_field(changes: dict[str, Any], field: str) -> None:
    fields = {"kind": "trace", "trace": {"name": "small"}, "arrival": RECORDED}
    with pytest.raises(ValidationError) as refused:
        WorkloadSpec.model_validate({**fields, **changes})
    (fault,) = refused.value.errors()
    assert (fault["ctx"]["field"] if "field" in fault.get("ctx", {}) else fault["loc"][-1]) == field


def test_a_workload_of_a_trace_reads_back_as_it_was_written() -> None:
    load = workload(seconds=60, time_scale=0.5)
    assert WorkloadSpec.model_validate(load.model_dump(mode="json")) == load
