"""Several engines on one virtual clock: who gets a request, how it is passed on, and what is told of it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from test_virtual import MODEL
from virtual_systems import Played, play_system, pools, system_spec

from runners.events import RequestRecord

OPEN = {"kind": "open", "request_rate": 200.0}
SHARED = {"groups": 3, "prefix_tokens": 256}
KV_BYTES_PER_TOKEN = 2 * MODEL.shape["layers"] * MODEL.shape["kv_heads"] * MODEL.shape["head_dim"] * 2


def played(placement: dict[str, Any], num_blocks: dict[str, int] | None = None, **load: Any) -> Played:
    return play_system(system_spec(placement, **{"num_requests": 40, **load}), num_blocks=num_blocks)


def bytes_of(run: Played) -> bytes:
    return b"\n".join(event.model_dump_json().encode() for event in run.events)


def second_token_waits(run: Played) -> list[float]:
    return [record.token_times_s[1] - record.token_times_s[0] for record in run.measured]


def test_replicas_run_at_the_same_time_and_each_step_says_whose_it_is() -> None:
    one, three = played({}, arrival=OPEN), played({"replicas": 3}, arrival=OPEN)
    assert {step.engine for step in one.steps} == {None}
    assert {step.engine for step in three.steps} == {"serve-0", "serve-1", "serve-2"}
    overlaps = 0
    for engine in ("serve-0", "serve-1", "serve-2"):
        own = three.steps_of(engine)
        for earlier, later in itertools.pairwise(own):
            assert later.start_s >= earlier.start_s + earlier.duration_s
        overlaps += sum(step.start_s < other.start_s < step.start_s + step.duration_s
                        for step in own[:20] for other in three.steps if other.engine != engine)  # fmt: skip
    assert overlaps


def test_steps_of_all_engines_are_numbered_in_the_order_of_their_ends() -> None:
    run = played({"replicas": 3}, arrival=OPEN)
    assert [step.index for step in run.steps] == list(range(1, len(run.steps) + 1))
    ends = [step.start_s + step.duration_s for step in run.steps]
    assert ends == sorted(ends)


def test_round_robin_gives_each_engine_its_turn() -> None:
    run = played({"replicas": 4}, output_len={"dist": "fixed", "tokens": 1}, warmup={"num_requests": 0})
    assert {engine: sum(step.prefill_tokens for step in run.steps_of(engine)) > 0 for engine in
            (f"serve-{n}" for n in range(4))} == {f"serve-{n}": True for n in range(4)}  # fmt: skip
    prompts = [record.input_tokens or 0 for record in run.measured]
    for place in range(4):
        done = sum(step.prefill_tokens for step in run.steps_of(f"serve-{place}"))
        assert done == sum(prompts[place::4])


def test_the_least_loaded_engine_keeps_long_answers_from_piling_up() -> None:
    load = {"output_len": {"dist": "lognormal", "median_tokens": 40, "sigma": 1.5, "max_tokens": 1500},
            "arrival": {"kind": "closed", "max_concurrency": 12}, "engine": {"max_num_seqs": 2}}  # fmt: skip

    def most_waiting(policy: str) -> int:
        run = played({"replicas": 4, "router": {"policy": policy}}, num_requests=60, **load)
        return max(step.waiting for step in run.steps)

    assert most_waiting("least_loaded") < most_waiting("round_robin")


def test_a_kv_aware_router_finds_the_engine_that_has_a_prefix() -> None:
    def cached(policy: str, **more: float) -> int:
        router = {"policy": policy, **more}
        run = played({"replicas": 3, "router": router}, shared_prefix=SHARED, arrival=OPEN, engine={"block_size": 8})
        return sum(record.cached_tokens or 0 for record in run.measured)

    # With round robin each engine must compute each prefix once; else, when nothing holds it back, only one does.
    assert cached("kv_aware", overlap_weight=100.0) > cached("round_robin") > 0
    assert cached("kv_aware", overlap_weight=0.0) == cached("least_loaded")


def test_prefill_engines_compute_prompts_and_decode_engines_the_rest() -> None:
    run = played(pools(2, 1))
    assert {step.engine for step in run.steps} == {"prefill-0", "prefill-1", "decode-0"}
    assert all(not step.decode_tokens for step in run.steps_of("prefill"))
    assert all(not step.prefill_tokens for step in run.steps_of("decode"))
    for record in run.measured:
        assert record.status == "ok" and record.output_tokens == record.target_output_tokens
        assert record.token_times_s == sorted(record.token_times_s)
        assert record.first_token_s == record.prefill_done_s
        assert record.queued_s is not None and record.scheduled_first_s is not None
        assert record.sent_s + run.facts["reading_s"] == pytest.approx(record.queued_s)
        assert record.queued_s <= record.scheduled_first_s
    prompts = sum(record.input_tokens or 0 for record in all_requests(run))
    assert sum(step.prefill_tokens for step in run.steps) == prompts


@pytest.mark.parametrize(("profile", "reads"), [("vllm", True), ("kog", False), ("built-in", False)])
def test_an_engine_with_published_first_tokens_reads_a_request_before_it_queues(profile: str, reads: bool) -> None:
    run = played({}, engine={"profile": profile}, num_requests=4)
    assert (run.facts["reading_s"] > 0) == reads
    for record in run.measured:
        assert record.queued_s == pytest.approx(record.sent_s + run.facts["reading_s"])


def all_requests(run: Played) -> list[RequestRecord]:
    return [event for event in run.events if isinstance(event, RequestRecord)]


def test_every_prompt_goes_over_the_link_once_unless_its_answer_is_one_token() -> None:
    run = played(pools(), output_len={"dist": "uniform", "min_tokens": 1, "max_tokens": 3})
    handed = [record for record in all_requests(run) if (record.output_tokens or 0) > 1]
    assert 0 < len(handed) < len(all_requests(run))
    transfers = run.facts["transfers"]
    assert transfers["count"] == len(handed)
    assert transfers["bytes"] == KV_BYTES_PER_TOKEN * sum(record.input_tokens or 0 for record in handed)


def test_a_slow_link_delays_the_second_token_and_not_the_first() -> None:
    calm = {"arrival": {"kind": "open", "request_rate": 2.0}, "num_requests": 12}
    fast = played(pools(link={"bytes_per_s": 1e12, "latency_s": 0.0}), **calm)
    slow = played(pools(link={"bytes_per_s": 1e12, "latency_s": 0.1}), **calm)
    first_waits = [[(r.first_token_s or 0.0) - r.sent_s for r in run.measured] for run in (fast, slow)]
    assert first_waits[0] == pytest.approx(first_waits[1])
    for short, long in zip(second_token_waits(fast), second_token_waits(slow), strict=True):
        assert long == pytest.approx(short + 0.1)


def test_what_is_streamed_by_layer_arrives_sooner_than_what_is_sent_afterwards() -> None:
    load = {"arrival": {"kind": "open", "request_rate": 2.0}, "num_requests": 12, "input_len": fixed(2000)}
    link = {"bytes_per_s": 1e10, "latency_s": 0.0}
    by_layer = played(pools(link=link, stream="layer"), **load)
    whole = played(pools(link=link, stream="whole"), **load)
    assert sum(second_token_waits(by_layer)) < sum(second_token_waits(whole))
    assert by_layer.facts["transfers"]["waited_s"] < whole.facts["transfers"]["waited_s"]
    assert by_layer.facts["transfers"]["seconds"] == pytest.approx(whole.facts["transfers"]["seconds"])


def fixed(tokens: int) -> dict[str, Any]:
    return {"dist": "fixed", "tokens": tokens}


def test_transfers_between_two_engines_queue_for_their_link() -> None:
    seconds_each = 0.05
    rate = 500 * KV_BYTES_PER_TOKEN / seconds_each / 0.8  # of a link, what a transfer reaches
    link = {"bytes_per_s": rate, "latency_s": 0.0}
    load = {"input_len": fixed(500), "output_len": fixed(2), "arrival": {"kind": "closed", "max_concurrency": 8}}
    run = played(pools(link=link), num_requests=8, warmup={"num_requests": 0}, **load)
    arrivals = sorted(record.token_times_s[1] for record in run.measured)
    assert arrivals[-1] - arrivals[0] >= 6 * seconds_each


def test_a_prefill_engine_keeps_a_prompts_blocks_until_they_are_sent() -> None:
    load = {"input_len": fixed(320), "output_len": fixed(4), "warmup": {"num_requests": 0}, "num_requests": 6,
            "arrival": {"kind": "closed", "max_concurrency": 6}, "engine": {"prefix_cache": False}}  # fmt: skip
    slow = {"bytes_per_s": 1e12, "latency_s": 0.5}
    # Room for two prompts at a time: the third can't begin before the first has arrived.
    run = played(pools(link=slow), {"prefill": 20}, **load)
    firsts = sorted(record.first_token_s or 0.0 for record in run.measured)
    assert firsts[1] < 0.5 < firsts[2] < 1.0 < firsts[4]
    assert all(step.prefill_tokens + step.decode_tokens for step in run.steps)
    roomy = played(pools(link=slow), {"prefill": 80}, **load)
    assert max(record.first_token_s or 0.0 for record in roomy.measured) < 0.5


def test_a_request_waits_for_room_in_the_decode_engine() -> None:
    load = {"input_len": fixed(320), "output_len": fixed(200), "arrival": {"kind": "closed", "max_concurrency": 6}}
    full = played(pools(), {"decode": 40}, num_requests=12, **load)
    assert max(step.waiting for step in full.steps_of("decode")) > 0
    assert full.facts["phases"]["decode"]["capacity"]
    roomy = played(pools(), num_requests=12, **load)
    assert max(step.waiting for step in roomy.steps_of("decode")) == 0
    assert not roomy.facts["phases"]["decode"]["capacity"]


def test_a_request_that_the_decode_engine_could_never_take_is_refused_when_it_is_sent() -> None:
    load = {"input_len": fixed(320), "output_len": {"dist": "uniform", "min_tokens": 2, "max_tokens": 400}}
    run = played(pools(), {"decode": 20}, **load)
    statuses = Counter(record.status for record in run.measured)
    assert statuses["ok"] and statuses["error"]
    assert all((record.target_output_tokens or 0) > 300 for record in run.measured if record.status == "error")


def test_samples_count_all_engines_together() -> None:
    run = played({"replicas": 3}, arrival={"kind": "closed", "max_concurrency": 24}, engine={"max_num_seqs": 4})
    assert sum(sample.steps for sample in run.samples) == len(run.steps)
    assert max(sample.running_max or 0 for sample in run.samples) > 4
    for sample in run.samples:
        blocks = sample.kv_blocks
        assert blocks is not None
        held = sum(blocks.owners.values()) + blocks.others + blocks.shared
        total = sum(pool["num_blocks"] * pool["engines"] for pool in run.facts["system"]["pools"])
        assert held + blocks.cached + blocks.free == total


def test_facts_name_the_pools_what_bound_their_phases_and_what_they_cost() -> None:
    run = played(pools(2, 1))
    system, phases = run.facts["system"], run.facts["phases"]
    assert system["chips"] == 3 and [pool["role"] for pool in system["pools"]] == ["prefill", "decode"]
    assert phases["prefill"]["pool"] == "prefill" and phases["decode"]["pool"] == "decode"
    spent = sum(phase["seconds"] for phase in phases.values())
    assert spent == pytest.approx(sum(step.duration_s for step in run.steps))
    assert run.facts["chip"] == "h100-sxm+h200-sxm" and run.facts["energy"] == {"source": "modelled"}
    assert played({}).facts["transfers"] is None


@pytest.mark.parametrize("policy", ["round_robin", "least_loaded", "kv_aware"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(policy: str) -> None:
    placement = pools(3, 2) | {"router": {"policy": policy}}
    load = {"shared_prefix": SHARED, "arrival": OPEN, "num_requests": 30}
    one, again, other = (played(placement, seed=seed, **load) for seed in (5, 5, 6))
    assert bytes_of(one) == bytes_of(again) and one.facts == again.facts
    assert bytes_of(one) != bytes_of(other)
