"""Each reason code appears when its threshold is broken, and not before."""

from __future__ import annotations

from typing import Any

import pytest
from test_metrics import make_report, make_request, make_spec

from runners.spec import FixedLen, FloorSpec, OpenArrival, QualitySpec, SamplingSpec
from runners.validity import THRESHOLDS, find_reasons

FULL = [make_request(i, sent_s=i * 0.6, finished_s=(i + 1) * 0.6) for i in range(34)]


def codes(requests: list[Any] = FULL, spec: Any = None, attempt: int = 1, **report: Any) -> set[str]:
    found = find_reasons(requests, [], make_report(**report), spec or make_spec(), attempt=attempt)
    assert all(reason.message for reason in found)
    return {reason.code for reason in found}


def changed(share: float, **changes: Any) -> list[Any]:
    count = round(len(FULL) * share)
    return [record.model_copy(update=changes) if i < count else record for i, record in enumerate(FULL)]


def test_a_clean_run_is_valid():
    assert codes() == set()


def test_a_cancelled_run_says_so():
    assert codes(outcome="cancelled") == {"cancelled"}


@pytest.mark.parametrize(("finished", "expected"), [(-0.1, set()), (0.1, {"warmup_leak"}), (None, {"warmup_leak"})])
def test_a_warmup_request_in_the_window_is_a_leak(finished, expected):
    warm = make_request(99, phase="warmup", sent_s=-1.0, finished_s=finished)
    assert codes([*FULL, warm]) == expected


def test_a_closed_loop_below_its_load_has_no_steady_state():
    gaps = [make_request(i, sent_s=float(i), finished_s=i + 0.4) for i in range(20)]
    assert codes(gaps) == {"no_steady_state"}


def test_an_open_loop_whose_backlog_grows_has_no_steady_state():
    workload = make_spec().workload.model_copy(update={"arrival": OpenArrival(kind="open", request_rate=10)})
    spec = make_spec(workload=workload)
    late = [make_request(i, sent_s=i * 0.1, finished_s=5 + i * 0.5) for i in range(24)]
    prompt = [make_request(i, sent_s=i * 0.8, finished_s=i * 0.8 + 0.6) for i in range(24)]
    assert codes(late, spec) == {"no_steady_state"}
    assert codes(prompt, spec) == set()


def test_a_run_without_a_window_has_no_steady_state():
    assert "no_steady_state" in codes(window_start_s=None, window_end_s=None)


def test_too_few_requests():
    assert "too_few_requests" in codes(FULL[:19], window_end_s=11.4)
    assert codes(FULL[:20], window_end_s=12.0) == set()


def test_more_than_one_percent_of_errors():
    assert codes(changed(1 / 34, status="error")) == {"errors_over_1pct"}


def test_a_late_load_generator_is_the_limit():
    assert codes(client={"p99_lag_s": THRESHOLDS["client_bound"] * 1.01}) == {"client_bound"}
    assert codes(client={"p99_lag_s": THRESHOLDS["client_bound"]}) == set()


@pytest.mark.parametrize("changes", [{"queued_s": -1.0}, {"prefill_done_s": 99.0}])
def test_runtime_times_outside_the_clients_span_are_skew(changes):
    assert codes(changed(1 / 34, **changes)) == {"clock_skew"}


def test_cached_tokens_that_nothing_shares_on_purpose():
    assert codes(changed(0.2, cached_tokens=8)) == {"cache_contaminated"}


def test_a_prefix_that_is_shared_on_purpose_contaminates_nothing_but_what_lies_beyond_it():
    workload = make_spec().workload.model_dump() | {"shared_prefix": {"groups": 2, "prefix_tokens": 8}}
    spec = make_spec(workload=workload)
    assert codes(changed(1.0, cached_tokens=8), spec=spec) == set()
    assert codes(changed(1.0, cached_tokens=10), spec=spec) == {"cache_contaminated"}


def test_a_trace_whose_rows_share_blocks_contaminates_nothing_but_what_lies_beyond_them():
    cached = changed(0.5, cached_tokens=8)
    assert codes(cached, client={"trace": {"requests": 34, "shared_tokens": 17 * 8}}) == set()
    assert codes(cached, client={"trace": {"requests": 34, "shared_tokens": 8}}) == {"cache_contaminated"}
    assert codes(cached, client={"trace": {"requests": 34, "shared_tokens": 0}}) == {"cache_contaminated"}


def test_a_sessions_history_may_be_cached_but_not_what_its_turns_add():
    workload = make_spec().workload.model_copy(
        update={"kind": "conversation", "input_len": FixedLen(dist="fixed", tokens=4)}
    )
    spec = make_spec(workload=workload)
    assert codes(changed(1.0, session="a", turn=2, input_tokens=10, cached_tokens=6), spec=spec) == set()
    assert codes(changed(1.0, session="a", turn=2, input_tokens=10, cached_tokens=8), spec=spec) == {
        "cache_contaminated"
    }
    assert codes(changed(0.2, session="a", turn=1, cached_tokens=8), spec=spec) == {"cache_contaminated"}


@pytest.mark.parametrize(("fact", "code"), [("foreign_cpu_share", "node_shared"), ("throttled_share", "throttled")])
def test_facts_of_the_node_break_their_thresholds(fact, code):
    assert codes(facts={fact: THRESHOLDS[code] * 1.1}) == {code}
    assert codes(facts={fact: THRESHOLDS[code] * 0.9}) == set()


def test_outputs_of_another_length_than_asked():
    assert codes(changed(1 / 34, output_tokens=4)) == {"output_length_mismatch"}
    workload = make_spec().workload.model_copy(update={"sampling": SamplingSpec(ignore_eos=False)})
    assert codes(changed(1 / 34, output_tokens=4), make_spec(workload=workload)) == set()


def test_a_second_attempt_an_emulated_format_and_a_speculative_chip():
    assert codes(attempt=2) == {"retried"}
    assert codes(facts={"emulated": True}) == {"emulated_speed"}
    assert codes(spec=make_spec(chip={"speculative": True})) == {"speculative_chip"}


def test_a_speculative_chip_anywhere_in_the_system_is_named():
    spec = make_spec(chip={}, chips={"a": {"speculative": False}, "b": {"speculative": True}})
    (reason,) = find_reasons(FULL, [], make_report(), spec)
    assert reason.code == "speculative_chip" and "the record of b stands in" in reason.message


def quality_report(ratio: float, **more: Any) -> dict[str, Any]:
    figure = {"value": 1.0, "n": 8}
    text = dict.fromkeys(("perplexity", "bits_per_byte", "kl_divergence", "top1_agreement"), figure)
    text |= {"perplexity_ratio": {"value": ratio, "low": ratio - 0.01, "high": ratio + 0.01, "n": 8}}
    return {"quality": {"text": text | {"scored_tokens": 10, "scored_bytes": 40}, **more}}


@pytest.mark.parametrize(("ratio", "expected"), [(1.04, set()), (1.06, {"quality_below_floor"})])
def test_a_run_whose_quality_is_below_its_floor_is_invalid_by_the_experiments_own_threshold(ratio, expected):
    spec = make_spec(quality=QualitySpec(floor=FloorSpec(perplexity_ratio=1.05)))
    assert codes(spec=spec, facts=quality_report(ratio)) == expected
    found = find_reasons(FULL, [], make_report(facts=quality_report(ratio)), spec)
    assert all((reason.value, reason.threshold) == (ratio, 1.05) for reason in found)


def test_a_floor_that_could_not_be_checked_is_not_kept_unless_the_run_is_modelled():
    spec = make_spec(quality=QualitySpec(floor=FloorSpec(perplexity_ratio=1.05)))
    assert codes(spec=spec) == {"quality_below_floor"}
    assert codes(spec=spec, modelled=True) == set()


def test_without_a_floor_any_quality_is_valid():
    assert codes(spec=make_spec(quality=QualitySpec()), facts=quality_report(3.0)) == set()
