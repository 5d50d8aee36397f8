"""The reference executor over tiers: loaded blocks are filled before the step, and hold what was computed once."""

from __future__ import annotations

from reference_executor import ReferenceExecutor

from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.tiers import TierLoad


class TieredExecutor(ReferenceExecutor):
    """Reads each context back through the block table to know which prefixes were ever computed."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        super().__init__(num_blocks, block_size)
        self.texts: dict[str, tuple[int, ...]] = {}
        self.loads: list[tuple[str, TierLoad]] = []
        self._computed: set[tuple[int, ...]] = set()

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        for share in batch:
            self._load(share)
        result = super().execute(batch)
        for share in batch:
            context = [self._slots[self._slot(share, position)] for position in range(share.start)]
            text = tuple(token for token, _ in context) + share.token_ids
            self.texts[share.request_id] = text
            if share.sample:
                self.texts[share.request_id] += (result.tokens[share.request_id],)
            self._computed.update(text[:stop] for stop in range(share.start + 1, len(text) + 1))
        return result

    def _load(self, share: ScheduledSequence) -> None:
        self.loads += [(share.request_id, load) for load in share.loaded]
        num_tokens = sum(load.num_tokens for load in share.loaded)
        if num_tokens:
            text = self.texts[share.request_id]
            assert text[: share.start] in self._computed, "a tier gives what nobody computed"
            for position in range(share.start - num_tokens, share.start):
                self._slots[self._slot(share, position)] = (text[position], position)
