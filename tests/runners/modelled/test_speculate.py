"""Speculative decoding on a modelled node: what drafts cost, what is accepted, and what can't draft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_topology import CHIPS, disaggregated, plan, shape_of

from runners.modelled.clock import VirtualClock
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.speculate import SpeculativeCostModel, num_accepted
from runners.modelled.step_model import CostModelError, DecodeSums
from runners.modelled.system_plan import PoolPlan
from runners.modelled.topology import plan_for
from runners.runtime.sequence import SamplingParams
from runners.spec import EngineSpec, PlacementSpec, SpeculationSpec


@dataclass(frozen=True)
class Drafted:
    """A decoding sequence with drafts."""

    start: int
    num_draft_tokens: int
    new: int = 1
    sample: bool = True

    @property
    def token_ids(self) -> tuple[int, ...]:
        return (1,) * self.new


def pool_of(speculation: dict[str, Any] | None = None, draft: str | None = None) -> PoolPlan:
    engine = EngineSpec.model_validate({"weights": "fp8", "speculation": speculation or {}})
    chips, shape = {"h200-sxm": CHIPS["h200-sxm"]}, shape_of(draft) if draft else None
    (pool,) = plan_for(chips, shape_of("llama-3-70b"), engine, PlacementSpec(), 4096, draft=shape).pools
    return pool


def drafting(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "max_draft": 3, "acceptance": 0.7} | more


PLAIN = pool_of()
NGRAM = pool_of(drafting("ngram"))
SELF = pool_of(drafting("self", layers=8))
DRAFT = pool_of(drafting("draft", model="llama-3-8b"), "llama-3-8b")
BATCH = [Drafted(900, 3)] * 16


def cost_of(pool: PoolPlan) -> SpeculativeCostModel:
    assert isinstance(pool.cost, SpeculativeCostModel)
    return pool.cost


def test_checking_costs_a_step_of_all_positions_and_drafts_from_the_text_cost_no_more() -> None:
    whole = PLAIN.cost.step([Drafted(900, 0, new=4)] * 16)
    checked = NGRAM.cost.step(BATCH)
    head_flops = 2 * shape_of("llama-3-70b").head_weights
    assert checked.linear_flops == whole.linear_flops + 16 * 3 * head_flops  # All positions give logits.
    assert checked.kv_bytes == whole.kv_bytes
    assert whole.duration_s <= checked.duration_s < 1.1 * whole.duration_s
    assert PLAIN.cost.step([Drafted(900, 0)] * 16).duration_s < checked.duration_s


@pytest.mark.parametrize("pool", [SELF, DRAFT])
def test_each_draft_step_costs_one_token_of_the_drafter(pool: PoolPlan) -> None:
    drafter = cost_of(pool).drafter
    assert drafter is not None
    steps = [drafter.decode_step(DecodeSums(16, 16 * (901 + place), 0)).duration_s for place in range(3)]
    extra_s = pool.cost.step(BATCH).duration_s - NGRAM.cost.step(BATCH).duration_s
    assert extra_s == pytest.approx(sum(steps))


def test_only_sequences_that_have_drafts_left_draft_on() -> None:
    uneven = [Drafted(900, 3), Drafted(500, 1), Drafted(100, 0)]
    drafter = cost_of(SELF).drafter
    assert drafter is not None
    steps = [DecodeSums(2, 901 + 501, 0), DecodeSums(1, 902, 0), DecodeSums(1, 903, 0)]
    extra_s = SELF.cost.step(uneven).duration_s - NGRAM.cost.step(uneven).duration_s
    assert extra_s == pytest.approx(sum(drafter.decode_step(sums).duration_s for sums in steps))


def test_a_model_of_its_own_that_drafts_takes_memory_and_computes_prompts_too() -> None:
    assert DRAFT.kv.weight_bytes > PLAIN.kv.weight_bytes + 7e9
    assert DRAFT.kv.num_blocks < PLAIN.kv.num_blocks == NGRAM.kv.num_blocks == SELF.kv.num_blocks
    prompt = [Drafted(0, 0, new=2000)]
    assert DRAFT.cost.step(prompt).duration_s > PLAIN.cost.step(prompt).duration_s == SELF.cost.step(prompt).duration_s


def test_without_drafts_a_step_costs_what_it_does_without_speculation() -> None:
    plain = [Drafted(900, 0)] * 16
    for pool in (NGRAM, SELF, DRAFT):
        assert pool.cost.step(plain) == PLAIN.cost.step(plain) == pool.cost.decode_step(DecodeSums(16, 16 * 901, 0))


@given(st.integers(0, 2**63 - 1), st.integers(0, 10_000), st.integers(0, 12))
def test_what_is_accepted_depends_on_seed_and_index_alone_and_is_at_most_what_was_drafted(
    seed: int, index: int, drafts: int
) -> None:
    spec = SpeculationSpec(kind="ngram", max_draft=12, acceptance=0.6)
    found = num_accepted(spec, seed, index, drafts)
    assert 0 <= found <= drafts and found == num_accepted(spec, seed, index, drafts)
    assert num_accepted(spec, seed, index, max(drafts - 1, 0)) == min(found, max(drafts - 1, 0))


@pytest.mark.parametrize(("acceptance", "chances"), [(0.7, [0.7] * 4), ((0.9, 0.5), [0.9, 0.5, 0.5, 0.5])])
def test_drafts_are_accepted_as_often_as_the_profile_says(acceptance: Any, chances: list[float]) -> None:
    spec = SpeculationSpec(kind="ngram", max_draft=4, acceptance=acceptance)
    mean = sum(num_accepted(spec, seed, 5, 4) for seed in range(20_000)) / 20_000
    expected, chance = 0.0, 1.0
    for each in chances:
        chance *= each
        expected += chance
    assert mean == pytest.approx(expected, rel=0.02)


def test_a_request_gets_the_tokens_that_it_gets_without_speculation_in_fewer_steps() -> None:
    outputs: dict[str, list[int]] = {}
    steps: dict[str, int] = {}
    for name, pool, spec in (("plain", PLAIN, {}), ("drafted", NGRAM, drafting("ngram"))):
        engine_spec = EngineSpec.model_validate({"speculation": spec} if spec else {})
        engine = build_engine(ModelledExecutor(pool.cost, pool.kv, 32, VirtualClock()), engine_spec)
        engine.add("a", tuple(range(50)), SamplingParams(max_tokens=200, seed=3))
        outputs[name], steps[name] = [], 0
        while (output := engine.step()) is not None:
            steps[name] += 1
            outputs[name] += [token.token_id for token in output.tokens]
            timing = output.tokens[-1].timing
        assert timing is not None
        if spec:
            assert timing.draft_tokens > timing.accepted_tokens == 200 - steps[name]
    assert outputs["plain"] == outputs["drafted"] and len(outputs["plain"]) == 200
    assert steps["plain"] == 200 and steps["drafted"] < 120


@pytest.mark.parametrize(
    ("asked", "draft", "field", "words"),
    [
        ({"kind": "ngram"}, None, "acceptance", "no chance is given"),
        (drafting("self", layers=80), None, "layers", "80 layers can't draft for a model of 80"),
        (drafting("draft", model="x"), None, "model", "names no model that drafts"),
        (drafting("draft", model="x"), "llama-3-405b", "model", "no fewer than those of the model"),
        (drafting("draft", model="x"), "qwen3-8b", "model", "151,936 tokens are not the 128,256"),
    ],
)
def test_what_can_not_draft_is_refused_by_its_figure(
    asked: dict[str, Any], draft: str | None, field: str, words: str
) -> None:
    with pytest.raises(CostModelError, match=words) as raised:
        pool_of(asked, draft)
    assert raised.value.field == f"engine.speculation.{field}" and raised.value.allowed


def test_a_model_can_not_draft_from_its_own_layers_where_they_lie_apart() -> None:
    pools = {"attention": {"chip": "h200-sxm"}, "ffn": {"chip": "h200-sxm"}}
    asked = disaggregated("attention_ffn", **pools)
    with pytest.raises(CostModelError, match="attention and FFN lie apart") as raised:
        plan("any", engine={"speculation": drafting("self", layers=4)}, disaggregate=asked)
    assert raised.value.field == "engine.speculation.kind"
    (pool,) = plan("any", engine={"speculation": drafting("ngram")}, disaggregate=asked).pools
    assert pool.cost.step(BATCH).duration_s > pool.cost.decode_step(DecodeSums(16, 16 * 901, 0)).duration_s


def test_a_prefill_pool_does_not_draft() -> None:
    pools = {"prefill": {"chip": "h200-sxm"}, "decode": {"chip": "h200-sxm"}}
    prefill, decode = plan("any", engine={"speculation": drafting("ngram")},
                           disaggregate=disaggregated("prefill_decode", **pools)).pools  # fmt: skip
    assert not isinstance(prefill.cost, SpeculativeCostModel) and isinstance(decode.cost, SpeculativeCostModel)
    assert decode.cost.facts()["speculation"] == {"kind": "ngram", "max_draft": 3, "acceptance": 0.7}
