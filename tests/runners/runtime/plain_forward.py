"""What exactness is held against: a plain forward without cache, the whole text alone and in one piece.

Where an executor says that its kernels are batch-invariant, equality is to the bit. Where bf16 kernels are not, a token
may differ at a close call: where the reference's two largest logits are nearer than MARGIN.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from runners.runtime.executor import ScheduledSequence
from runners.runtime.sequence import SamplingParams
from runners.runtime.torch_executor import TorchExecutor

MARGIN = 0.5
"""In logits. Measured on SmolLM2, whose logits span 64, with kernels that split single rows' sums: 0.44 at most."""

MOST_CLOSE_CALLS = 0.1
"""Share of tokens that may differ: more would be no rounding."""


@dataclass
class Plain:
    """An executor's own plain forward, on the last blocks of its pool, and how much of it was compared."""

    executor: TorchExecutor
    compared: int = 0
    close_calls: int = 0

    @property
    def invariant(self) -> bool:
        facts = self.executor.facts()
        return bool(facts["batch_invariant"]) or facts["weights"] == "int8"

    def logits(self, text: Seq[int]) -> torch.Tensor:
        held = -(-len(text) // self.executor.block_size)
        table = tuple(range(self.executor.num_blocks - held, self.executor.num_blocks))
        item = ScheduledSequence("plain", tuple(text), 0, table, True, SamplingParams(), 0)
        return self.executor.logits((item,))[0]

    def compare_logits(self, logits: torch.Tensor, text: Seq[int]) -> None:
        """Hold logits after a text against the plain ones."""
        expected = self.logits(text)
        assert not self.invariant or torch.equal(logits, expected)
        self._compare_token(int(logits.argmax()), expected)

    def compare_tokens(self, prompt: Seq[int], output: Seq[int]) -> None:
        """Hold a greedy output against the plain token at each of its places."""
        for count, token in enumerate(output):
            self._compare_token(token, self.logits((*prompt, *output[:count])))

    def _compare_token(self, token: int, logits: torch.Tensor) -> None:
        self.compared += 1
        if token != int(logits.argmax()):
            assert not self.invariant
            assert float(logits.max() - logits[token]) < MARGIN
            self.close_calls += 1

    def report(self) -> str:
        """What was counted; asserts that close calls are few."""
        facts = self.executor.facts()
        assert self.close_calls <= MOST_CLOSE_CALLS * self.compared
        return (
            f"{facts['weights']}, {facts['kernels']}, {facts['attention_products']} attention products, "
            f"batch-invariant {facts['batch_invariant']}: {self.close_calls} of {self.compared} tokens differ"
        )
