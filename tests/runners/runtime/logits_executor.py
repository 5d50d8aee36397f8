"""The reference executor with logits, which depend on all of a context, and the real sampler over them."""

from __future__ import annotations

import hashlib

import torch
from reference_executor import VOCAB_SIZE, ReferenceExecutor

from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.sampling.outputs import read_outputs


class LogitsExecutor(ReferenceExecutor):
    """Its hidden states are its logits, (rows, VOCAB_SIZE): random, and the same for the same context.

    Few values, so that equal logits are common.
    """

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        self.batches.append(batch)
        self._write(batch)
        rows = [self._logits(share, share.start + len(share.token_ids)) for share in batch if share.sample]
        rows += [self._logits(share, position + 1) for share in batch for position in share.scored_positions]
        hidden = torch.stack(rows) if rows else torch.empty(0, VOCAB_SIZE)
        outputs = read_outputs(hidden, batch, lambda hidden: hidden.clone())
        duration_s = self.step_s + self.token_s * sum(len(share.token_ids) for share in batch)
        self._now_s += duration_s
        return StepResult(outputs.tokens, duration_s, outputs.logprobs, outputs.prompt_logprobs, outputs.embeddings)

    def _logits(self, share: ScheduledSequence, length: int) -> torch.Tensor:
        context = [self._slots[self._slot(share, position)] for position in range(length)]
        digest = hashlib.blake2b(repr(context).encode(), digest_size=8).digest()
        draw = torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
        return torch.randint(-9, 10, (VOCAB_SIZE,), generator=draw).to(torch.float32) / 3
