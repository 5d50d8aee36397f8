"""The measured executor: turns a scheduled batch into tensors, runs the model, reads its outputs.

Implements `executor.Executor` on the monotonic clock. Blocks and sequences are the scheduler's; this only reads the
block tables it is given.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import torch

from runners.runtime.attention import QUERY_SIZES, AttentionPlanner, KVCache, Slots
from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.kernels.interface import KernelSet
from runners.runtime.kernels.products import use_bf16_products
from runners.runtime.kernels.products_check import AttentionShape, choose_products
from runners.runtime.kernels.selfcheck import Choice, Weights, choose_kernels, is_batch_invariant
from runners.runtime.loading.weights import open_model
from runners.runtime.memory import available_bytes, kv_block_bytes, memory_need, refuse_what_does_not_fit
from runners.runtime.model_source import ModelSource
from runners.runtime.models.config import ModelConfig
from runners.runtime.models.decoder import Decoder, StepInput
from runners.runtime.sampling.outputs import read_outputs

KV_MEMORY_SHARE = 0.1
"""Part of the available memory that the KV cache takes when its size is not given."""


class TorchExecutor:
    """A model, its KV cache and a clock. `config` is the model's; `facts()` says what it runs on."""

    def __init__(
        self, model: Decoder, kernels: KernelSet, *, num_blocks: int, block_size: int, max_model_len: int
    ) -> None:
        self.num_blocks, self.block_size, self.max_model_len = num_blocks, block_size, max_model_len
        self.config: ModelConfig = model.config
        self.vocab_size = model.config.vocab_size
        self._model, self._kernels = model, kernels
        with torch.inference_mode():
            self._batch_invariant = is_batch_invariant(model.row_functions(), kernels.hidden_dtype)
        self._cache = KVCache(model.config, num_blocks, block_size)
        self._planner = AttentionPlanner(model.config, num_blocks, block_size)

    def now(self) -> float:
        return time.monotonic()

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        """Run one step. Writes KV of every scheduled token; gives tokens, logprobs and embeddings where asked."""
        start = self.now()
        ordered = _by_length(batch)
        with torch.inference_mode():
            hidden = self._model.hidden(self._prepare(ordered), self._cache)
            outputs = read_outputs(hidden, ordered, self._model.logits)
        return StepResult(
            outputs.tokens, self.now() - start, outputs.logprobs, outputs.prompt_logprobs, outputs.embeddings
        )

    def logits(self, batch: tuple[ScheduledSequence, ...]) -> torch.Tensor:
        """Logits (sampled sequences, vocab_size), float32, single tokens first, else in the batch's order."""
        with torch.inference_mode():
            return self._model.forward(self._prepare(_by_length(batch)), self._cache)

    def facts(self) -> dict[str, Any]:
        """Provenance of a run on this executor."""
        return {
            "architecture": self.config.architecture,
            "weights": self._kernels.weights,
            "kernels": self._kernels.name,
            "emulated": self._kernels.emulated,
            "attention_products": self._model.products.name,
            "batch_invariant": self._batch_invariant,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "num_blocks": self.num_blocks,
            "block_size": self.block_size,
            "max_model_len": self.max_model_len,
            "weight_bytes": self._model.weight_bytes,
        }

    def _prepare(self, ordered: Seq[ScheduledSequence]) -> StepInput:
        counts = np.array([len(item.token_ids) for item in ordered])
        positions = np.concatenate([np.arange(item.start, item.start + len(item.token_ids)) for item in ordered])
        blocks = np.concatenate([self._row_blocks(item) for item in ordered])
        ends = np.cumsum(counts)
        sampled = ends[[item.sample for item in ordered]] - 1
        scored = [
            np.array(item.scored_positions) + end - item.start - len(item.token_ids)
            for item, end in zip(ordered, ends, strict=True)
            if item.scored_positions
        ]
        rows = torch.from_numpy(positions)
        return StepInput(
            token_ids=torch.tensor([token for item in ordered for token in item.token_ids]),
            positions=rows,
            slots=Slots(torch.from_numpy(blocks), rows % self.block_size),
            groups=self._planner.plan_layers([(item.start, len(item.token_ids), item.block_table) for item in ordered]),
            sampled_rows=torch.from_numpy(np.concatenate((sampled, *scored))),
        )

    def _row_blocks(self, item: ScheduledSequence) -> np.ndarray[Any, np.dtype[np.int64]]:
        stop = item.start + len(item.token_ids)
        first = item.start // self.block_size
        held = np.array(item.block_table[first : (stop - 1) // self.block_size + 1], dtype=np.int64)
        return held[np.arange(item.start, stop) // self.block_size - first]


def _by_length(batch: tuple[ScheduledSequence, ...]) -> list[ScheduledSequence]:
    """Single tokens first, as the attention planner wants them."""
    return sorted(batch, key=lambda item: len(item.token_ids) != 1)


def build(
    source: ModelSource,
    *,
    weights: Weights = "bf16",
    block_size: int = 32,
    num_blocks: int | None = None,
    max_model_len: int | None = None,
    threads: int | None = None,
    kernels: Choice = "auto",
) -> TorchExecutor:
    """Load a model (a GGUF file, a folder in Hugging Face layout, or a shape) and make it ready to run.

    `num_blocks` None takes KV_MEMORY_SHARE of the free memory. Sets the process's torch threads. Raises ModelFileError
    for a file that can't be used, UnsupportedShape for such a shape, ModelDoesNotFit before anything is loaded,
    KernelsUnavailable for native kernels that are wrong on this chip.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    use_bf16_products()
    config, model_weights = open_model(source)
    length = min(max_model_len or config.max_model_len, config.max_model_len)
    with torch.inference_mode():
        kernel_set = choose_kernels(weights, kernels)
        refuse_what_does_not_fit(
            memory_need(
                config,
                model_weights.layout,
                bytes_per_weight=kernel_set.bytes_per_weight,
                kv_bytes=(num_blocks or 1) * kv_block_bytes(config, block_size),
                max_model_len=length,
            )
        )
        products = choose_products(attention_shape(config, block_size))
        model = Decoder(config, model_weights, kernel_set, products, length)
    if num_blocks is None:
        num_blocks = max(int(available_bytes() * KV_MEMORY_SHARE) // kv_block_bytes(config, block_size), 1)
    return TorchExecutor(model, kernel_set, num_blocks=num_blocks, block_size=block_size, max_model_len=length)


def attention_shape(config: ModelConfig, block_size: int) -> AttentionShape:
    """What the products of a model's attention are tried for."""
    sizes = AttentionPlanner(config, 1, block_size).key_sizes()
    return AttentionShape(config.num_heads, config.num_kv_heads, config.head_dim, QUERY_SIZES, sizes)
