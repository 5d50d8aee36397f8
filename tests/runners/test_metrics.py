"""METRICS.md, checked by hand-made records whose figures can be worked out on paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import metrics
from runners.distributions import GRID, distributions
from runners.events import Report, RequestRecord, Step
from runners.metric import samples_needed
from runners.metrics import summarize
from runners.objectives import slo_met
from runners.request_figures import token_gaps_s
from runners.spec import (
    ClosedArrival,
    CostSpec,
    EngineSpec,
    FixedLen,
    ModelRef,
    OpenArrival,
    PlacementSpec,
    RunSpec,
    SamplingSpec,
    SloSpec,
    WorkloadSpec,
)

SHAPE = {
    "layers": 2,
    "hidden_size": 8,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 4,
    "ffn": 16,
    "vocab_size": 32,
}


def make_spec(**changes: object) -> RunSpec:
    values: dict[str, object] = {
        "run_id": 1,
        "experiment_id": 1,
        "trial_index": 0,
        "repeat": 0,
        "seed": 1,
        "settings": {},
        "model": ModelRef(name="tiny", sha256="0", shape=SHAPE),
        "chip_id": "any",
        "engine": EngineSpec(block_size=8),
        "placement": PlacementSpec(),
        "workload": WorkloadSpec(
            kind="synthetic",
            input_len=FixedLen(dist="fixed", tokens=10),
            arrival=ClosedArrival(kind="closed", max_concurrency=1),
            num_requests=20,
            sampling=SamplingSpec(),
        ),
        "slo": SloSpec(),
        "cost": CostSpec(),
        "time_limit_s": 60,
        "code_revision": "test",
    }
    return RunSpec.model_validate(values | changes)


def make_request(index: int, **changes: object) -> RequestRecord:
    """Sent at `index` s, first token 0.2 s later, four more tokens 0.1 s apart."""
    sent = float(index)
    values: dict[str, object] = {
        "index": index,
        "request_id": f"r{index}",
        "phase": "measured",
        "scheduled_s": sent - 0.1,
        "sent_s": sent,
        "first_token_s": sent + 0.2,
        "token_times_s": [sent + 0.2 + 0.1 * i for i in range(5)],
        "token_counts": [1] * 5,
        "finished_s": sent + 0.6,
        "input_tokens": 10,
        "cached_tokens": 0,
        "output_tokens": 5,
        "target_output_tokens": 5,
        "status": "ok",
        "queued_s": sent + 0.01,
        "scheduled_first_s": sent + 0.02,
        "prefill_done_s": sent + 0.19,
        "preemptions": 0,
    }
    return RequestRecord.model_validate(values | changes)


def make_report(**changes: object) -> Report:
    values: dict[str, object] = {"outcome": "succeeded", "window_start_s": 0.0, "window_end_s": 20.0}
    return Report.model_validate(values | changes)


def make_step(index: int, **changes: object) -> Step:
    values: dict[str, object] = {
        "index": index,
        "start_s": float(index),
        "duration_s": 0.25,
        "prefill_tokens": 0,
        "decode_tokens": 1,
        "running": 1,
        "waiting": 0,
        "kv_used_blocks": 2,
        "kv_cached_blocks": 1,
        "kv_free_blocks": 5,
        "kv_used_slots": 12,
    }
    return Step.model_validate(values | changes)


def summary_of(requests: list[RequestRecord], steps: list[Step] | None = None, **changes: object):
    return summarize(requests, steps or [], make_report(), make_spec(**changes))


def test_latencies_are_what_their_definitions_say():
    found = summary_of([make_request(i) for i in range(20)]).metrics
    assert found["ttft"].value == pytest.approx(0.2)
    assert found["tpot"].value == pytest.approx(0.1)
    assert found["itl"].value == pytest.approx(0.1)
    assert found["itl"].n == 80
    assert found["e2el"].value == pytest.approx(0.6)
    assert found["interactivity"].value == pytest.approx(10)
    assert "effective_ttft" not in found


def test_throughputs_are_tokens_of_the_window_over_the_window():
    found = summary_of([make_request(i) for i in range(20)]).metrics
    assert found["output_throughput"].value == pytest.approx(100 / 20)
    assert found["total_throughput"].value == pytest.approx(300 / 20)
    assert found["request_throughput"].value == pytest.approx(1)
    assert found["concurrency"].value == pytest.approx(0.6)
    assert found["littles_law_error"].value == pytest.approx(0, abs=1e-9)


def test_warmup_requests_enter_no_figure():
    plain = [make_request(i) for i in range(20)]
    early = make_request(50, phase="warmup", sent_s=-5.0, first_token_s=-1.0, finished_s=-0.5)
    assert summary_of([*plain, early]).metrics == summary_of(plain).metrics


def test_a_chunk_of_k_tokens_counts_its_gap_once_and_the_rest_as_zero():
    record = make_request(0, token_times_s=[0.2, 0.5], token_counts=[2, 3])
    assert token_gaps_s(record) == pytest.approx([0.0, 0.3, 0.0, 0.0])
    assert metrics.chunk_gaps_s(record) == pytest.approx([0.3])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_itl_gaps_number_one_less_than_the_tokens_and_add_up_to_the_span(counts: list[int]):
    times = [0.2 + 0.01 * i for i in range(len(counts))]
    record = make_request(0, token_times_s=times, token_counts=counts)
    carrying = [t for t, k in zip(times, counts, strict=True) if k]
    gaps = token_gaps_s(record)
    assert len(gaps) == max(0, sum(counts) - 1)
    assert sum(gaps) == pytest.approx(carrying[-1] - carrying[0] if carrying else 0)


def test_what_was_not_measured_is_none_and_not_zero():
    found = summary_of([make_request(i, cached_tokens=None, preemptions=None) for i in range(20)]).metrics
    for name in ("cache_hit_rate", "preemptions", "kv_use", "mfu", "goodput", "cost_per_million_output_tokens"):
        assert found[name].value is None, name


def test_a_single_token_has_no_tpot():
    assert metrics.tpot_s(make_request(0, output_tokens=1)) is None


def test_goodput_counts_requests_inside_every_objective():
    slow = [make_request(i, first_token_s=i + 0.55) for i in range(5)]
    fast = [make_request(i) for i in range(5, 20)]
    failed = make_request(20, status="error", error="lost")
    found = summary_of([*slow, *fast, failed], slo=SloSpec(ttft_s=0.3)).metrics
    assert found["goodput"].value == pytest.approx(15 / 20)
    assert found["goodput_share"].value == pytest.approx(15 / 21)
    assert found["token_goodput"].value == pytest.approx(75 / 20)


def test_a_percentile_objective_binds_the_run():
    records = [make_request(i) for i in range(19)] + [make_request(19, first_token_s=19.55)]
    assert slo_met(records, SloSpec(ttft_s={"p50": 0.3})) is True
    assert slo_met(records, SloSpec(ttft_s=0.3)) is False
    assert slo_met(records, SloSpec()) is None


def test_cost_is_the_nodes_price_over_the_tokens():
    found = summary_of([make_request(i) for i in range(20)], usd_per_hour=3.6).metrics
    assert found["cost_per_million_output_tokens"].value == pytest.approx(0.001 * 20 / 100 * 1e6)
    assert found["output_tokens_per_usd"].value == pytest.approx(100 / 0.02)


def test_runtime_figures_come_from_the_steps_of_the_window():
    steps = [make_step(i) for i in range(20)] + [make_step(25, waiting=99)]
    found = summary_of([make_request(i) for i in range(20)], steps).metrics
    assert found["queue_depth"].value == 0
    assert found["kv_use"].value == pytest.approx(2 / 8)
    assert found["kv_fragmentation"].value == pytest.approx(1 - 12 / 16)
    assert found["idle_share"].value == pytest.approx(0.75)


def test_mfu_and_mbu_are_counted_from_the_models_shape():
    body = 2 * (8 * 4 * 6 + 3 * 8 * 16)
    head = 8 * 32
    flops = 2 * body + 2 * head + 4 * 2 * 2 * 4 * 12
    moved = (body + head) * 2 + 2 * 2 * 4 * 2 * (12 + 1)
    report = make_report(facts={"peaks": {"flops_per_s": 1e9, "bytes_per_s": 1e6}})
    steps = [make_step(i) for i in range(4)]
    found = summarize([make_request(i) for i in range(20)], steps, report, make_spec()).metrics
    assert found["mfu"].value == pytest.approx(flops / (1e9 * 0.25))
    assert found["mbu"].value == pytest.approx(moved / (1e6 * 0.25))
    assert found["decode_compute_wait"].value == pytest.approx(1 - found["mbu"].value)


def test_percentiles_need_the_samples_that_early_stopping_asks_for():
    assert samples_needed(90) == 64
    assert samples_needed(99) == 662
    found = summary_of([make_request(i) for i in range(20)]).metrics["ttft"]
    assert found.percentiles["p50"].enough
    assert not found.percentiles["p90"].enough


def test_an_open_loop_run_reports_effective_ttft_from_the_schedule():
    spec = make_spec()
    workload = spec.workload.model_copy(update={"arrival": OpenArrival(kind="open", request_rate=1.0)})
    found = summary_of([make_request(i) for i in range(20)], workload=workload.model_dump()).metrics
    assert found["effective_ttft"].value == pytest.approx(0.3)


def test_distributions_hold_the_quantiles_of_measured_successful_requests():
    requests = [
        *(make_request(i) for i in range(5)),
        make_request(5, first_token_s=5.9),
        make_request(6, first_token_s=6.5, status="error"),
        make_request(7, first_token_s=7.5, phase="warmup"),
    ]
    found = distributions(metrics.latency_values(requests, make_spec()))
    of_parts = {"client_wait", "network_time", "queue_wait", "prefill_time", "first_sample_time"}
    assert set(found) == {"ttft", "tpot", "e2el", "interactivity", "itl", "icl", *of_parts}
    assert found["ttft"]["n"] == 6
    assert len(found["ttft"]["quantiles"]) == len(GRID)
    assert found["ttft"]["quantiles"][0] == pytest.approx(0.2)
    assert found["ttft"]["quantiles"][-1] == pytest.approx(0.9)
    assert found["itl"]["n"] == 6 * 4
    assert distributions(metrics.latency_values(requests[-2:], make_spec())) == {}
