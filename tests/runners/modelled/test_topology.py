"""From a placement to engines: what fits on how many chips, what joins them, and refusals that name the figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runners import shapes
from runners.chips import load_catalog, one_chip, record_for_run
from runners.modelled.capacity import USABLE_SHARE, DoesNotFit
from runners.modelled.layouts import Cutter, TopologyError, divisors
from runners.modelled.links import TRANSFER_SHARE
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.step_model import CostModelError
from runners.modelled.topology import SystemPlan, plan_for, plan_system
from runners.spec import EngineSpec, NodeLink, PlacementSpec, RunSpec

CHIPS = {chip.chip_id: chip for chip in load_catalog()}


def shape_of(name: str) -> ModelShape:
    return ModelShape.from_mapping(shapes.get(name).to_mapping())


def plan(
    chip: str, model: str = "llama-3-8b", *, longest: int = 4096, links: Any = (), counts: dict[str, int] | None = None,
    engine: dict[str, Any] | None = None, **placement: Any,
) -> SystemPlan:  # fmt: skip
    asked = PlacementSpec.model_validate(placement)
    chips = {name: record_for_run(CHIPS[name], allow_speculative=True) for name in asked.chips(chip)}
    spec = EngineSpec.model_validate(engine or {})
    return plan_for(chips, shape_of(model), spec, asked, longest, links, counts, chip=chip)


def refusal(*names: Any, **asked: Any) -> CostModelError:
    with pytest.raises(CostModelError) as raised:
        plan(*names, **asked)
    assert raised.value.retry is False
    assert raised.value.allowed
    return raised.value


def disaggregated(kind: str, **pools: Any) -> dict[str, Any]:
    return {"kind": kind, **pools}


def test_auto_takes_the_fewest_chips_that_hold_the_model_and_the_longest_request() -> None:
    chips = ("h100-sxm", "h200-sxm", "mi300x")
    assert [plan(chip, "llama-3-70b").pools[0].parallel.tp for chip in chips] == [2, 2, 1]
    assert plan("h100-sxm").pools[0].parallel.tp == 1


def test_a_longer_request_may_take_more_chips() -> None:
    assert plan("h100-sxm", longest=4096).chips == 1
    assert plan("h100-sxm", "llama-3-70b", longest=100_000).chips == 4


def test_weights_and_blocks_fit_each_chip() -> None:
    for chip, model, placement in (
        ("h100-sxm", "llama-3-70b", {"tensor_parallel": 4}),
        ("h100-sxm", "llama-3-70b", {"tensor_parallel": 2, "pipeline_parallel": 2}),
        ("h200-sxm", "deepseek-v3", {"tensor_parallel": 8, "pipeline_parallel": 2}),
    ):
        (pool,) = plan(chip, model, **placement).pools
        copies = pool.parallel.tp if shape_of(model).kv_latent_dim else 1
        kv_bytes = pool.kv.num_blocks * pool.kv.block_bytes * copies / (pool.parallel.tp * pool.parallel.pp)
        capacity = CHIPS[chip].memory.capacity_bytes
        assert capacity is not None
        assert pool.kv.weight_bytes + kv_bytes <= USABLE_SHARE * capacity


def test_a_group_of_its_own_holds_its_own_sequences() -> None:
    one, four = plan("h100-sxm").pools[0], plan("h100-sxm", data_parallel=4).pools[0]
    assert four.chips_per_engine == 4
    assert four.kv.num_blocks == 4 * one.kv.num_blocks
    assert four.kv.max_sequence_tokens == one.kv.max_sequence_tokens


def test_what_does_not_fit_is_refused_with_the_bytes() -> None:
    error = refusal("h100-sxm", "deepseek-v3", engine={"weights": "fp8"})
    assert isinstance(error, DoesNotFit) and error.field == "model"
    assert f"{error.weight_bytes:,}" in str(error) and "72,000,000,000 bytes" in str(error)
    assert "pipeline_parallel (now 1)" in error.allowed
    assert plan("h100-sxm", "deepseek-v3", engine={"weights": "fp8"}, pipeline_parallel=2).chips == 16


@pytest.mark.parametrize(
    ("model", "placement", "field", "words"),
    [
        ("llama-3-8b", {"tensor_parallel": 3}, "tensor_parallel", "3 chips can't share 32 heads"),
        ("llama-3-8b", {"tensor_parallel": 16}, "tensor_parallel", "16 chips speak in every layer.*joins 8"),
        ("llama-3-8b", {"pipeline_parallel": 33}, "pipeline_parallel", "33 stages are more than the model's 32"),
        ("llama-3-8b", {"tensor_parallel": 2, "expert_parallel": 2}, "expert_parallel", "there are none here"),
        ("qwen3-30b-a3b", {"tensor_parallel": 2, "expert_parallel": 3}, "expert_parallel", "no divisor of the 2"),
        ("gpt-oss-20b", {"tensor_parallel": 1, "data_parallel": 12, "expert_parallel": 12,
                         "link": {"bytes_per_s": 5e10}}, "expert_parallel", "32 experts can't lie whole on 12"),
        ("deepseek-v3", {"tensor_parallel": 1, "data_parallel": 32, "expert_parallel": 32}, "data_parallel",
         "32 chips speak in every layer.*joins 8"),
    ],
)  # fmt: skip
def test_an_impossible_layout_is_refused_by_its_figure(
    model: str, placement: dict[str, Any], field: str, words: str
) -> None:
    error = refusal("h100-sxm", model, engine={"weights": "fp8"}, **placement)
    assert isinstance(error, TopologyError)
    assert error.field == f"placement.{field}"
    with pytest.raises(TopologyError, match=words):
        raise error


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        ({"tensor_parallel": 100_000, "data_parallel": 99_991, "expert_parallel": 64}, "tensor_parallel"),
        ({"tensor_parallel": 8, "data_parallel": 100_000, "expert_parallel": 7}, "data_parallel"),
        ({"tensor_parallel": 32, "pipeline_parallel": 10_000}, "pipeline_parallel"),
    ],
)
def test_an_engine_of_more_chips_than_any_node_can_offer_is_refused_at_once(layout: dict[str, Any], field: str) -> None:
    error = refusal("h100-sxm", **layout)
    assert (error.field, error.allowed) == (f"placement.{field}", "at most 100,000 chips")


def test_divisors_of_large_numbers_are_found_at_once_and_a_refusal_tells_the_first() -> None:
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36] and divisors(7) == [1, 7] and divisors(1) == [1]
    assert len(divisors(10**12)) == 169
    heads = replace(shape_of("llama-3-8b"), heads=9_979_200, kv_heads=1)
    with pytest.raises(TopologyError, match=r"… \(up to 9979200\)"):
        Cutter(CHIPS["h100-sxm"], heads, "placement", joined=True).check(Parallel(tp=13))


def test_experts_may_lie_beyond_a_domain_over_a_link_that_somebody_states() -> None:
    wide = {"tensor_parallel": 1, "data_parallel": 32, "expert_parallel": 32}
    document = plan("h100-sxm", "deepseek-v3", engine={"weights": "fp8"}, link={"bytes_per_s": 5e10}, **wide)
    link = NodeLink(between=("h100-sxm", "h100-sxm"), bytes_per_s=5e10, latency_s=20e-6)
    node = plan("h100-sxm", "deepseek-v3", engine={"weights": "fp8"}, links=[link], **wide)
    assert document.links["h100-sxm"].source == "the document"
    assert (node.links["h100-sxm"].source, node.links["h100-sxm"].latency_s) == ("the node", 20e-6)


def test_stages_beyond_a_domain_hand_on_over_the_network_and_the_system_says_so() -> None:
    near, far = (plan("h100-sxm", "llama-3-70b", tensor_parallel=tp, pipeline_parallel=2) for tp in (4, 8))
    assert "stages of h100-sxm" not in near.links
    assert far.links["stages of h100-sxm"].source.startswith("assumed: a network")


def test_more_chips_than_the_node_offers_are_refused_by_what_asks_for_them() -> None:
    error = refusal("h100-sxm", replicas=3, counts={"h100-sxm": 2})
    assert (error.field, error.message, error.allowed) == (
        "placement.replicas", "takes 3 x h100-sxm", "2, as many as the node offers")  # fmt: skip
    assert plan("h100-sxm", "llama-3-70b", replicas=2, counts={"h100-sxm": 8}).chip_counts == {"h100-sxm": 4}


def test_a_pool_of_some_chips_has_as_many_engines_as_they_make_and_no_rest() -> None:
    pools = {"prefill": {"chip": "h100-sxm", "count": 6, "tensor_parallel": 2},
             "decode": {"chip": "h200-sxm", "count": 8, "tensor_parallel": 4}}  # fmt: skip
    prefill, decode = plan("any", disaggregate=disaggregated("prefill_decode", **pools)).pools
    assert [(pool.role, pool.engines, pool.chips_per_engine) for pool in (prefill, decode)] == [
        ("prefill", 3, 2), ("decode", 2, 4)]  # fmt: skip
    pools["decode"]["count"] = 7
    error = refusal("any", disaggregate=disaggregated("prefill_decode", **pools))
    assert error.field == "placement.disaggregate.decode.count" and error.allowed == "a multiple of 4"


def test_kv_cache_crosses_between_unlike_chips_over_what_is_stated_or_an_assumed_network() -> None:
    pools = {"prefill": {"chip": "trainium3", "tensor_parallel": 2}, "decode": {"chip": "wse3"}}
    assumed = plan("any", disaggregate=disaggregated("prefill_decode", **pools)).transfer
    link = NodeLink(between=("wse3", "trainium3"), bytes_per_s=1e11, latency_s=5e-6)
    stated = plan("any", links=[link], disaggregate=disaggregated("prefill_decode", **pools)).transfer
    asked = plan("any", disaggregate=disaggregated("prefill_decode", link={"bytes_per_s": 4e11}, **pools)).transfer
    assert assumed is not None and stated is not None and asked is not None
    assert assumed.source.startswith("assumed") and assumed.bytes_per_token == 131_072 and assumed.layers == 32
    assert (stated.bytes_per_s, stated.latency_s, stated.source) == (1e11 * TRANSFER_SHARE, 5e-6, "the node")
    assert (asked.bytes_per_s, asked.source) == (4e11 * TRANSFER_SHARE, "the document")


def test_a_narrow_cache_is_half_as_large_and_crosses_in_half_the_bytes() -> None:
    pools = {"prefill": {"chip": "h100-sxm"}, "decode": {"chip": "h100-sxm"}}
    wide, narrow = (plan("any", engine={"kv_cache": kv}, disaggregate=disaggregated("prefill_decode", **pools))
                    for kv in ("bf16", "fp8"))  # fmt: skip
    assert wide.transfer is not None and narrow.transfer is not None
    assert wide.transfer.bytes_per_token == 2 * narrow.transfer.bytes_per_token
    assert narrow.pools[1].kv.block_bytes * 2 == wide.pools[1].kv.block_bytes


def test_a_record_of_a_rack_gives_its_chips_one_by_one() -> None:
    rack, chip = CHIPS["gb200-nvl72"], one_chip(CHIPS["gb200-nvl72"])
    assert rack.memory.bandwidth_bytes_per_s is not None and chip.memory.bandwidth_bytes_per_s is not None
    assert chip.memory.bandwidth_bytes_per_s * 72 == pytest.approx(rack.memory.bandwidth_bytes_per_s)
    assert plan("gb200-nvl72", "llama-3-70b").chips == plan("gb200", "llama-3-70b").chips == 1
    (pool,) = plan("gb200-nvl72", "deepseek-v3", engine={"weights": "nvfp4"}).pools
    assert pool.chips_per_engine == 4
    assert one_chip(CHIPS["h100-sxm"]) is CHIPS["h100-sxm"]


def test_the_price_of_a_system_is_that_of_its_chips_and_null_where_one_has_none() -> None:
    assert plan("h100-sxm", "llama-3-70b", replicas=2).usd_per_hour == pytest.approx(4 * 1.3)
    assert plan("wse3").usd_per_hour is None


def test_a_run_is_planned_from_its_frozen_records() -> None:
    spec = RunSpec.model_validate({
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 1, "settings": {}, "chip_id": "any",
        "model": {"name": "llama-3-8b", "sha256": "", "shape": shapes.get("llama-3-8b").to_mapping()},
        "chip": CHIPS["h100-sxm"].model_dump(mode="json"), "engine": {}, "placement": {"replicas": 2},
        "workload": {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 1}, "num_requests": 1},
        "slo": {}, "cost": {}, "time_limit_s": 9, "code_revision": "test",
    })  # fmt: skip
    found = plan_system(spec)
    assert found.text == "2 x 1 h100-sxm"
    facts = found.facts()
    assert facts["chips"] == 2 and facts["link"] is None and facts["router"] == "round_robin"
    assert facts["pools"][0]["parallel"] == {"tp": 1, "dp": 1, "pp": 1, "ep": 1}
    assert facts["pools"][0]["idle_w"] > 0
