"""A step's batch, summed: all that its cost depends on, counted from positions and lengths alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runners.modelled.shape import ModelShape
from runners.modelled.step_model import DecodeSums, Share
from runners.precision import BYTES_PER_KV


@dataclass(slots=True)
class BatchSums:
    """New tokens, sampled positions, sequences; FLOPs of attention; elements of KV cache that are read and written."""

    num_tokens: int
    num_sampled: int
    sequences: int
    attention_flops: int
    kv_elements: int


class BatchCounter:
    """Sums batches of one model, whose cache has elements of `kv_element_bytes`."""

    def __init__(self, shape: ModelShape, kv_element_bytes: int) -> None:
        self.shape = shape
        self._window = shape.sliding_window if shape.sliding_layers else 0
        # Recurrent states stay 32 bits wide, whatever the cache is kept in.
        self._state_elements = shape.state_traffic * BYTES_PER_KV["bf16"] // kv_element_bytes

    def count(self, batch: Iterable[Share]) -> BatchSums:
        """Of each sequence the keys and values of its new tokens are written once and those of its whole context read
        once, as METRICS.md counts them."""
        shape, window = self.shape, self._window
        num_tokens = num_sampled = attention_flops = elements = 0
        decodes = keys = window_keys = sequences = 0
        for share in batch:
            new = len(share.token_ids)
            sequences += 1
            num_sampled += share.sample
            if new == 1:
                decodes += 1
                keys += share.start + 1
                window_keys += min(share.start + 1, window)
                continue
            num_tokens += new
            attention_flops += shape.attention_flops(share.start, new)
            elements += self._elements(1, share.start + new, min(share.start + new, window), new)
        alone = self.count_decodes(DecodeSums(decodes, keys, window_keys))
        return BatchSums(num_tokens + decodes, num_sampled, sequences, attention_flops + alone.attention_flops,
                         elements + alone.kv_elements)  # fmt: skip

    def count_decodes(self, sums: DecodeSums) -> BatchSums:
        """Of a batch of decodes that are all sampled: what `count` gives for it, without looking at each."""
        shape, number = self.shape, sums.sequences
        keys = shape.full_layers * sums.keys + shape.sliding_layers * sums.window_keys
        elements = self._elements(number, sums.keys, sums.window_keys, number)
        return BatchSums(number, number, number, shape.flops_per_key(1) * keys, elements)

    def _elements(self, sequences: int, keys: int, window_keys: int, new: int) -> int:
        """The keys read in each layer, the new ones written, and what recurrent states move."""
        shape = self.shape
        read = shape.full_layers * keys + shape.sliding_layers * window_keys
        return shape.kv_elements_per_layer * (read + shape.attending_layers * new) + sequences * self._state_elements
