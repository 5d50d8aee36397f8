"""What is computed for nothing because matrices do not fill whole tiles, and tiles do not fill whole waves.

A matrix product is cut into tiles of 128 outputs by as many tokens; what a last tile has over is computed and thrown
away. Tiles run in waves, one for each compute unit of the chip, and a last wave that is not full takes as long as one
that is (NVIDIA, "Matrix multiplication background user's guide", tile and wave quantisation). Each matrix counts by its
FLOPs. Below 128 tokens kernels cut otherwise, and a step is bound by memory: no waves are counted there, nor where a
product has less than one.

Experts are left out: their tokens differ from step to step, and kernels take many of them as one.
"""

from __future__ import annotations

from collections.abc import Iterator

from runners.modelled.shape import LATENT_ROPE_DIM, ModelShape
from runners.modelled.work import TILE_OUTPUTS, tiles

TILE_ROWS = 128
COMPUTE_UNITS = {
    "a100-80g-sxm": 108, "h100-sxm": 132, "h100-nvl": 132, "h100-pcie": 114, "h200-sxm": 132, "h200-nvl": 132,
    "gh200": 132, "b200-sxm": 148, "gb200": 148, "gb200-nvl72": 148, "b300-sxm": 160, "gb300": 160, "gb300-nvl72": 160,
    "rubin-vr200": 224, "vr-nvl72": 224, "l40s": 142, "rtx-3060": 28, "rtx-3090": 82, "rtx-4090": 128, "rtx-5080": 84,
    "rtx-5090": 170, "rtx-6000-ada": 142, "rtx-pro-6000": 188, "dgx-spark": 48, "jetson-agx-orin": 16,
    "mi300x": 304, "mi325x": 304, "mi355x": 256,
}  # fmt: skip
"""Streaming multiprocessors or compute units, as the vendors' architecture papers have them. Chips of one large array
have no waves."""


class MatrixWaste:
    """FLOPs done over FLOPs asked for, in the dense matrices of one model, each layer split over `tp` chips."""

    def __init__(self, shape: ModelShape, tp: int, chip_id: str) -> None:
        self._units = COMPUTE_UNITS.get(chip_id)
        self._matrices = tuple((outputs / tp, flops) for outputs, flops in _matrices(shape, tp) if outputs and flops)
        self._asked = sum(flops for _, flops in self._matrices)

    def times(self, tokens: float) -> float:
        """In a step of so many tokens; at least 1."""
        if not self._asked:
            return 1.0
        return sum(flops * self._of_one(outputs, tokens) for outputs, flops in self._matrices) / self._asked

    def _of_one(self, outputs: float, tokens: float) -> float:
        filled = tiles(outputs, TILE_OUTPUTS) / outputs
        if self._units is None or tokens < TILE_ROWS:
            return float(filled)
        waves = -(-outputs // TILE_OUTPUTS) * -(-tokens // TILE_ROWS) / self._units
        return float(filled * -(-waves // 1) / waves) if waves > 1 else float(filled)


def _matrices(shape: ModelShape, tp: int) -> Iterator[tuple[float, float]]:
    """Outputs before the split, and elements, of all layers' matrices by kind. Those whose inputs are split keep all of
    their outputs on each chip."""
    hidden, width, layers = shape.hidden_size, shape.heads * shape.head_dim, shape.layers
    if shape.kv_latent_dim:
        queries, through = width + shape.heads * LATENT_ROPE_DIM, shape.q_latent_dim or hidden
        yield queries, queries * through * layers
        yield 2 * width, 2 * width * (shape.kv_latent_dim - LATENT_ROPE_DIM) * layers
    else:
        heads_out = shape.head_dim * (shape.heads + 2 * shape.kv_heads)
        yield heads_out, heads_out * hidden * layers
    yield hidden * tp, hidden * width * layers
    for ffn, times in ((shape.ffn, layers - shape.expert_layers), (shape.shared_ffn, shape.expert_layers)):
        yield 2 * ffn, 2 * ffn * hidden * times
        yield hidden * tp, hidden * ffn * times
