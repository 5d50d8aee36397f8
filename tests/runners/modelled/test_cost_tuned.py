"""The tuned step: never under the roofline, the same from sums as from shares, and honest of what it was tuned with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cost import BATCHES, H100, LLAMA_3_8B, SMOLLM2, Piece

from runners import shapes
from runners.chips import load_catalog
from runners.modelled.cost import CostModel, DecodeSums
from runners.modelled.profiles import ProfileError
from runners.modelled.shape import ModelShape

CHIPS = {chip.chip_id: chip for chip in load_catalog()}
GPT_OSS = ModelShape.from_mapping(shapes.get("gpt-oss-20b").to_mapping())
TUNED = {name: CostModel(H100, shape, "bf16", "vLLM") for name, shape in
         (("llama", LLAMA_3_8B), ("smollm", SMOLLM2), ("gpt-oss", GPT_OSS))}  # fmt: skip


@given(BATCHES, st.sampled_from(sorted(TUNED)))
@settings(max_examples=60)
def test_a_tuned_step_is_never_faster_than_the_roofline(batch: list[Piece], name: str) -> None:
    step = TUNED[name].step(batch)
    assert step.duration_s >= step.roofline_s > 0


@given(st.lists(st.integers(0, 8000), min_size=1, max_size=80), st.sampled_from(sorted(TUNED)))
@settings(max_examples=60)
def test_decodes_cost_the_same_from_their_sums_to_the_bit(starts: list[int], name: str) -> None:
    cost = TUNED[name]
    window = cost.shape.sliding_window if cost.shape.sliding_layers else 0
    keys = sum(start + 1 for start in starts)
    sums = DecodeSums(len(starts), keys, sum(min(start + 1, window) for start in starts))
    assert cost.decode_step(sums) == cost.step([Piece(start, 1) for start in starts])


@given(st.lists(st.integers(0, 300), max_size=9), st.sampled_from([0, 1, 7, 128]))
@settings(max_examples=40)
def test_the_sums_of_a_batch_and_of_the_steps_after_it_are_those_of_its_sequences(
    starts: list[int], window: int
) -> None:
    for later, sums in zip(range(140), DecodeSums.each(starts, window), strict=False):
        lengths = [start + later + 1 for start in starts]
        assert sums == DecodeSums(len(starts), sum(lengths), sum(min(length, window) for length in lengths))


def test_a_mixture_reads_the_experts_that_its_tokens_reach() -> None:
    one, many = (TUNED["gpt-oss"].step([Piece(0, 1)] * count).weight_bytes for count in (1, 512))
    assert one < many / 3
    assert many == pytest.approx(2 * (GPT_OSS.body_weights + GPT_OSS.norm_weights + GPT_OSS.head_weights), rel=0.01)


def test_a_chip_that_results_were_published_for_is_calibrated_and_says_on_what() -> None:
    tuning = TUNED["llama"].tuning
    assert tuning is not None and tuning.state == "calibrated"
    assert tuning.fitted_on == "h100-sxm itself, with vLLM in bf16"
    assert {"latency", "rate", "ttft", "energy"} == tuning.errors.keys()
    assert tuning.errors["ttft"]["scope"].startswith("run_ttft: ")


def test_an_unseen_chip_falls_back_to_its_family_and_says_so() -> None:
    tuning = CostModel(CHIPS["gh200"], LLAMA_3_8B, "bf16", "vLLM").tuning
    assert tuning is not None and tuning.state == "calibrated"
    assert tuning.fitted_on.startswith("other chips of its family, hopper")


def test_a_chip_of_an_unseen_family_stays_uncalibrated() -> None:
    tuning = CostModel(CHIPS["tpu-v5p"], LLAMA_3_8B, "bf16", "vLLM").tuning
    assert tuning is not None and tuning.state == "uncalibrated" and not tuning.errors
    assert tuning.facts()["calibration_scope"]["fitted_on"] == "priors of its record"


def test_a_persistent_kernel_spends_less_per_layer_and_an_unknown_engine_is_refused() -> None:
    steps = {name: CostModel(H100, SMOLLM2, "bf16", name).step([Piece(100, 1)]).duration_s for name in ("Kog", "vLLM")}
    assert steps["Kog"] < steps["vLLM"] / 3
    described = CostModel(H100, SMOLLM2, "bf16", "Kog").tuning
    assert described is not None and described.state == "uncalibrated" and not described.errors
    with pytest.raises(ProfileError, match=r"'vllm' is not known; allowed: vLLM"):
        CostModel(H100, SMOLLM2, "bf16", "vllm")
