"""Any placement, of any chips and any shape, is planned inside its memory or refused by a figure of the document."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_topology import CHIPS, shape_of

from runners import shapes
from runners.chips import record_for_run
from runners.events import Bound
from runners.modelled.capacity import USABLE_SHARE
from runners.modelled.split import SplitCostModel
from runners.modelled.step_model import CostModelError, DecodeSums
from runners.modelled.topology import plan_for
from runners.spec import EngineSpec, PlacementSpec

NEVER = {"composite-rubin-lpx", "composite-trainium-wse", "qualcomm-ai200"}
RECORDS = {name: record_for_run(record, True) for name, record in CHIPS.items() if name not in NEVER}
ROOTS = ("placement.", "engine.", "model", "chip")
CUTS = st.sampled_from([1] * 6 + [2, 3, 4, 16])
LAYOUT = st.fixed_dictionaries({
    "tensor_parallel": st.sampled_from(["auto"] * 6 + [1, 2, 8, 9, 64]), "data_parallel": CUTS,
    "pipeline_parallel": CUTS, "expert_parallel": CUTS,
})  # fmt: skip
POOL = st.builds(
    lambda layout, chip, count: layout | {"chip": chip, "count": count},
    LAYOUT, st.sampled_from(sorted(RECORDS)), st.sampled_from(["auto"] * 5 + [1, 2, 8, 24, 72]),
)  # fmt: skip
DISAGGREGATE = st.one_of(
    st.just({"kind": "none"}),
    st.fixed_dictionaries({"kind": st.just("prefill_decode"), "prefill": POOL, "decode": POOL}),
    st.fixed_dictionaries({"kind": st.just("attention_ffn"), "attention": POOL, "ffn": POOL}),
)
PLACEMENT = st.builds(
    lambda layout, replicas, disaggregate, link: layout | {"replicas": replicas, "disaggregate": disaggregate} | link,
    LAYOUT, CUTS, DISAGGREGATE, st.sampled_from([{}, {"link": {"bytes_per_s": 1e11, "latency_s": 1e-6}}]),
)  # fmt: skip
ENGINE = st.fixed_dictionaries({
    "weights": st.sampled_from(["bf16", "int8", "fp8", "mxint8", "nvfp4", "mxfp4", "int4", "lns8"]),
    "kv_cache": st.sampled_from(["bf16", "fp8"]),
    "profile": st.sampled_from(["auto", "sglang", "kog", "llama.cpp"]),
    "speculation": st.sampled_from([
        {}, {"kind": "ngram", "acceptance": 0.5}, {"kind": "self", "layers": 4, "acceptance": 0.5},
        {"kind": "draft", "model": "x", "acceptance": 0.5},
    ]),
})  # fmt: skip


@given(st.sampled_from(sorted(RECORDS)), st.sampled_from(shapes.names()), ENGINE, PLACEMENT, st.integers(1, 200_000))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_placement_is_planned_inside_its_chips_or_refused_by_field(
    chip: str, model: str, engine: dict[str, Any], placement: dict[str, Any], longest: int
) -> None:
    asked = PlacementSpec.model_validate(placement)
    chips = {name: RECORDS[name] for name in asked.chips(chip)}
    draft = shape_of("llama-3-8b")
    try:
        plan = plan_for(
            chips, shape_of(model), EngineSpec.model_validate(engine), asked, longest, chip=chip, draft=draft
        )
    except CostModelError as error:
        assert error.field.startswith(ROOTS) and error.message and error.allowed and error.retry is False
        return
    assert plan.chips == sum(plan.chip_counts.values()) and plan.text
    for pool in plan.pools:
        cost, kv = pool.cost, pool.kv
        assert pool.chips_per_engine == sum(pool.chips_of_engine.values())
        assert 0 < kv.weight_bytes <= kv.usable_bytes and kv.max_sequence_tokens >= min(longest, pool.max_model_len)
        capacity = sum(number * (RECORDS[name].memory.capacity_bytes or 0) / _chips_in(name)
                       for name, number in pool.chips_of_engine.items())  # fmt: skip
        assert kv.num_blocks * kv.block_bytes <= USABLE_SHARE * capacity
        step = cost.decode_step(DecodeSums(3, 300, 300))
        assert (
            0 < step.duration_s < 1e3
            and step.bound in get_args(Bound)
            and step.duration_s >= step.roofline_s * 0.999_999
        )
        assert isinstance(cost, SplitCostModel) or pool.ffn is None or engine["speculation"]


def _chips_in(name: str) -> int:
    system = RECORDS[name].system
    return (system.chips or 1) if system is not None else 1
