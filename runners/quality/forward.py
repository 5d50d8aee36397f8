"""A model in one precision, computed over whole windows: the runtime's own decoder and kernels, without its server.

A window is one step of one sequence, as a prompt that fits a step is prefilled. Logits are made a slice at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from runners.quality.rescale import RescaledWeights
from runners.quality.windows import Window
from runners.runtime.attention import AttentionPlanner, KVCache, Slots
from runners.runtime.kernels.interface import KernelSet
from runners.runtime.kernels.products import use_bf16_products
from runners.runtime.kernels.products_check import choose_products
from runners.runtime.kernels.selfcheck import Choice, Weights, choose_kernels
from runners.runtime.loading.weights import open_model
from runners.runtime.memory import kv_block_bytes, memory_need, refuse_what_does_not_fit
from runners.runtime.models.config import ModelConfig
from runners.runtime.models.decoder import Decoder, StepInput
from runners.runtime.models.weights import WeightSource
from runners.runtime.torch_executor import attention_shape

BLOCK_SIZE = 32
SLICE_ROWS = 64


@dataclass(frozen=True, slots=True)
class Precision:
    """`rescaled`: with its channels scaled so that the weights leave their file's grid (rescale.py)."""

    weights: Weights
    kernels: Choice = "auto"
    rescaled: bool = False


class WindowModel:
    """One model for windows of at most `window_tokens`."""

    def __init__(self, config: ModelConfig, weights: WeightSource, kernels: KernelSet, window_tokens: int) -> None:
        self.config, self.kernels = config, kernels
        num_blocks = -(-window_tokens // BLOCK_SIZE)
        products = choose_products(attention_shape(config, BLOCK_SIZE))
        self._decoder = Decoder(config, weights, kernels, products, window_tokens)
        self._cache = KVCache(config, num_blocks, BLOCK_SIZE)
        self._planner = AttentionPlanner(config, num_blocks, BLOCK_SIZE)

    @classmethod
    def load(cls, path: Path, precision: Precision, window_tokens: int) -> WindowModel:
        """Raises ModelFileError, ModelDoesNotFit, KernelsUnavailable."""
        use_bf16_products()
        config, weights = open_model(path)
        kernels = choose_kernels(precision.weights, precision.kernels)
        num_blocks = -(-window_tokens // BLOCK_SIZE)
        refuse_what_does_not_fit(
            memory_need(
                config,
                weights.layout,
                bytes_per_weight=kernels.bytes_per_weight,
                kv_bytes=num_blocks * kv_block_bytes(config, BLOCK_SIZE),
                max_model_len=window_tokens,
            )
        )
        source = RescaledWeights(weights, config) if precision.rescaled else weights
        return cls(config, source, kernels, window_tokens)

    def hidden(self, window: Window) -> torch.Tensor:
        """Final hidden states (scored tokens, hidden_size): of the position before each scored token."""
        count = len(window.token_ids)
        positions = torch.arange(count)
        table = tuple(range(-(-count // BLOCK_SIZE)))
        step = StepInput(
            token_ids=torch.tensor(window.token_ids),
            positions=positions,
            slots=Slots(positions // BLOCK_SIZE, positions % BLOCK_SIZE),
            groups=self._planner.plan_layers([(0, count, table)]),
            sampled_rows=torch.arange(window.first_scored - 1, count - 1),
        )
        return self._decoder.hidden(step, self._cache)

    def logits(self, hidden: torch.Tensor) -> Iterator[torch.Tensor]:
        """Logits (at most SLICE_ROWS, vocab_size) float32 of hidden states, slice by slice."""
        for rows in torch.split(hidden, SLICE_ROWS):
            yield self._decoder.logits(rows)
