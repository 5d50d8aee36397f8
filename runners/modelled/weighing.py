"""Bytes of a model's weights in one format: what a chip of an engine holds, and what a step reads.

bf16 and int8 are counted as the built-in runtime stores them: int8 with one 32-bit scale for each output channel.
"""

from __future__ import annotations

from runners.modelled.parallel import Parallel
from runners.modelled.shape import TABLE_BYTES_PER_ELEMENT, ModelShape
from runners.precision import weight_widths

SCALE_BYTES = 4


class WeightBytes:
    """Of one model, spread over the chips of one engine."""

    def __init__(self, shape: ModelShape, weights: str, parallel: Parallel) -> None:
        widths = weight_widths(weights, bool(shape.experts))
        scales = SCALE_BYTES * shape.body_outputs / shape.body_weights if weights == "int8" else 0.0
        self._shape, self._parallel = shape, parallel
        self._dense = round(shape.dense_weights * (widths.dense + scales))
        self._routed = round(shape.routed_weights * (widths.routed + scales))
        self._norms = shape.norm_weights * TABLE_BYTES_PER_ELEMENT
        self._table = shape.head_weights * TABLE_BYTES_PER_ELEMENT
        head_scales = SCALE_BYTES * shape.vocab_size if weights == "int8" else 0
        self.head = round(shape.head_weights * widths.head) + head_scales
        self._shares_table = shape.tied_embeddings and widths.head == TABLE_BYTES_PER_ELEMENT

    def read(self, num_tokens: int, num_sampled: int) -> int:
        """What a step reads of them, on all chips: the body's (of experts those that its tokens are expected to reach),
        the head's if anything is sampled, and an embedding row per token."""
        shape = self._shape
        routed = self._routed
        if shape.experts:
            routed = round(routed * shape.experts_touched(num_tokens) / shape.experts)
        rows = num_tokens * shape.hidden_size * TABLE_BYTES_PER_ELEMENT
        return self._dense + routed + self._norms + rows + (self.head if num_sampled else 0)

    @property
    def tables(self) -> int:
        """Embedding and head in memory. A head as wide as the embedding may be the same table; another is a copy."""
        return self._table if self._shares_table else self._table + self.head

    @property
    def dense_resident(self) -> int:
        """What the fullest chip holds beside experts and tables: attention, dense MLPs, routers, norms."""
        parallel = self._parallel
        return -(-self._dense // (parallel.tp * parallel.pp)) + -(-self._norms // parallel.pp)

    @property
    def resident(self) -> int:
        """What the fullest chip holds. Attention, dense MLPs and tables are split over `tp`, experts over all chips of
        a stage; the first and the last stage have the tables."""
        parallel = self._parallel
        routed = -(-self._routed // (parallel.group * parallel.pp))
        return self.dense_resident + routed + -(-self.tables // parallel.tp)
