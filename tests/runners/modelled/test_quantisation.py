"""Tiles and waves that are not full: dimensions that a chip's hardware likes, and those that it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cost import H100, LLAMA_3_8B, Piece
from test_topology import CHIPS, shape_of

from runners.modelled.cost import CostModel
from runners.modelled.quantisation import COMPUTE_UNITS, MatrixWaste

NO_WAVES = "tpu-v5p"


@given(
    st.integers(1, 9000), st.integers(64, 20_000), st.sampled_from([1, 2, 8]), st.sampled_from(["h100-sxm", NO_WAVES])
)
def test_nothing_is_computed_in_less_than_is_asked_and_at_most_one_wave_is_lost(
    tokens: int, ffn: int, tp: int, chip: str
) -> None:
    found = MatrixWaste(replace(LLAMA_3_8B, ffn=ffn), tp, chip).times(tokens)
    assert 1.0 <= found < 2 * (1 + 128 * tp / min(ffn, 4096))


def test_whole_tiles_waste_nothing_and_one_output_more_costs_a_tile() -> None:
    assert MatrixWaste(LLAMA_3_8B, 1, NO_WAVES).times(1000) == 1.0
    wider = MatrixWaste(replace(LLAMA_3_8B, ffn=14_337), 1, NO_WAVES).times(1000)
    # 2 x 14,337 outputs take 225 tiles of 128 in place of 224.02; down's 14,337 are inputs.
    share = 2 * 14_337 * 4096 / (4096 * (6144 + 4096 + 3 * 14_337))
    assert wider == pytest.approx(1 + share * (225 * 128 / 28_674 - 1))


def test_hidden_sizes_count_by_the_flops_of_the_matrices_that_give_them() -> None:
    odd = MatrixWaste(replace(LLAMA_3_8B, hidden_size=4100), 1, NO_WAVES).times(1000)
    share = (4096 + 14_336) / (6144 + 4096 + 3 * 14_336)
    assert odd == pytest.approx(1 + share * (33 * 128 / 4100 - 1))


def test_a_last_wave_that_is_not_full_takes_as_long_as_one_that_is() -> None:
    waste = MatrixWaste(LLAMA_3_8B, 1, "h100-sxm")
    # Gate and up: 224 tiles of outputs by 3 of tokens are 5.09 waves of 132; others likewise.
    taken = {48: 144 / (48 * 3), 32: 132 / (32 * 3), 224: 792 / (224 * 3)}
    asked = {48: 6144 * 4096, 32: 4096 * 4096 + 14_336 * 4096, 224: 2 * 14_336 * 4096}
    taken[48], taken[32] = 264 / (48 * 3), 1.0  # Less than one wave is not counted.
    expected = sum(asked[tiles] * taken[tiles] for tiles in asked) / sum(asked.values())
    assert waste.times(384) == pytest.approx(expected)
    assert waste.times(100) == 1.0


def test_a_prompt_of_an_aligned_shape_is_computed_faster_per_flop() -> None:
    shapes = [replace(LLAMA_3_8B, ffn=ffn) for ffn in (14_336, 14_337)]
    per_flop = []
    for shape in shapes:
        step = CostModel(CHIPS[NO_WAVES], shape, "bf16", "vLLM").step([Piece(0, 2048)])
        per_flop.append(step.duration_s / step.linear_flops)
    assert per_flop[0] < per_flop[1]


def test_units_are_of_chips_of_the_catalog_and_latent_attention_has_its_matrices() -> None:
    assert set(COMPUTE_UNITS) <= set(CHIPS) and H100.chip_id in COMPUTE_UNITS
    deepseek = shape_of("deepseek-v3")
    waste = MatrixWaste(deepseek, 8, "h200-sxm")
    # All but what goes into the latents, and the routers.
    latents = 61 * 7168 * (1536 + 576) + 58 * 7168 * 256
    assert waste._asked == deepseek.dense_weights - latents
