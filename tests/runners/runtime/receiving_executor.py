"""The reference executor of a decode pool: what is received is written into the blocks before the step."""

from __future__ import annotations

from reference_executor import ReferenceExecutor

from runners.runtime.executor import ScheduledSequence, StepResult


class ReceivingExecutor(ReferenceExecutor):
    """Knows each request's first tokens, as if their keys and values had come over a link."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        super().__init__(num_blocks, block_size)
        self.sent: dict[str, tuple[int, ...]] = {}
        self.num_received_tokens = 0

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        for share in batch:
            self.num_received_tokens += share.num_received_tokens
            for position in range(share.num_received_tokens):
                self._slots[self._slot(share, position)] = (self.sent[share.request_id][position], position)
        return super().execute(batch)
