"""The reference executor with drafts: how many of them are right is a matter of chance, what they say is not."""

from __future__ import annotations

import random

from reference_executor import ReferenceExecutor, next_token

from runners.runtime.executor import ScheduledSequence, StepResult


class DraftingExecutor(ReferenceExecutor):
    """Accepts a random number of each share's drafts, or `accepts` of them; slots of the rejected hold rubbish."""

    def __init__(self, num_blocks: int, block_size: int, seed: int = 0, accepts: int | None = None) -> None:
        super().__init__(num_blocks, block_size)
        self._random = random.Random(seed)
        self._accepts = accepts

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        result = super().execute(batch)
        accepted = {
            share.request_id: self._verify(share, result.tokens[share.request_id])
            for share in batch
            if share.num_draft_tokens
        }
        return StepResult(result.tokens, result.duration_s, accepted=accepted)

    def _verify(self, share: ScheduledSequence, token: int) -> tuple[int, ...]:
        """The right tokens after `token`, whose own keys and values are written where it stands; rubbish after them."""
        most = share.num_draft_tokens
        count = self._random.randint(0, most) if self._accepts is None else min(self._accepts, most)
        context = [self._slots[self._slot(share, position)] for position in range(share.start + 1)]
        right = []
        for position in range(share.start + 1, share.start + 1 + most):
            is_right = len(right) < count
            self._slots[self._slot(share, position)] = entry = (token if is_right else -1, position)
            if is_right:
                context.append(entry)
                token = next_token(context, share.params)
                right.append(token)
        return tuple(right)
