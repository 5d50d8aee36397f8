"""An executor without a model, whose tokens still depend on every slot of KV they should depend on.

It keeps one (token, position) per slot. A sampled token is a hash of all that is read back through the block
table, so a wrong table, a stale or doubly used block, or a missed write changes the output. `expected_output`
is the same chain without any cache. Time is virtual: a step takes `step_s` plus `token_s` for each token.
"""

from __future__ import annotations

import hashlib

from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.sequence import SamplingParams

VOCAB_SIZE = 50


class ReferenceExecutor:
    """Refuses a step in which a slot is written twice, since that is how a shared block would be spoilt."""

    def __init__(self, num_blocks: int, block_size: int, max_model_len: int = 10_000) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.max_model_len = max_model_len
        self.vocab_size = VOCAB_SIZE
        self.step_s, self.token_s = 1.0, 0.001
        self.batches: list[tuple[ScheduledSequence, ...]] = []
        self._slots: dict[int, tuple[int, int]] = {}
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        self.batches.append(batch)
        self._write(batch)
        tokens = {share.request_id: self._sample(share) for share in batch if share.sample}
        duration_s = self.step_s + self.token_s * sum(len(share.token_ids) for share in batch)
        self._now_s += duration_s
        return StepResult(tokens, duration_s)

    def _write(self, batch: tuple[ScheduledSequence, ...]) -> None:
        written: set[int] = set()
        for share in batch:
            for position, token in enumerate(share.token_ids, share.start):
                slot = self._slot(share, position)
                assert slot not in written, f"slot {slot} is written twice in one step"
                written.add(slot)
                self._slots[slot] = (token, position)

    def _sample(self, share: ScheduledSequence) -> int:
        positions = range(share.start + len(share.token_ids))
        return next_token([self._slots[self._slot(share, position)] for position in positions], share.params)

    def _slot(self, share: ScheduledSequence, position: int) -> int:
        block = share.block_table[position // self.block_size]
        assert 0 <= block < self.num_blocks, f"block {block} is not in the pool"
        return block * self.block_size + position % self.block_size


def next_token(context: list[tuple[int, int]], params: SamplingParams) -> int:
    digest = hashlib.blake2b(repr((context, params.seed)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % VOCAB_SIZE


def expected_output(prompt_ids: tuple[int, ...], params: SamplingParams) -> tuple[int, ...]:
    """What the request gives on its own, with no blocks, chunks or cache in between."""
    context = [(token, position) for position, token in enumerate(prompt_ids)]
    output: list[int] = []
    while len(output) < params.max_tokens:
        token = next_token(context, params)
        context.append((token, len(context)))
        output.append(token)
        if token in params.stop_token_ids and not params.ignore_eos and len(output) >= params.min_tokens:
            break
    return tuple(output)
