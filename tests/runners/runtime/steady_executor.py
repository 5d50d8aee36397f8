"""An executor like a modelled one: lengths alone say how long a step takes, seed and index alone what it samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runners.runtime.executor import ScheduledSequence, StepDetail, StepResult
from runners.runtime.sequence import SamplingParams

VOCAB_SIZE = 11


class VirtualExecutor:
    """Whoever drives it moves its clock `now_s`. Durations are no round numbers, so that a sum tells its order."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.max_model_len = 10_000
        self.vocab_size = VOCAB_SIZE
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        tokens = {
            share.request_id: make_token(share.params, share.num_output_tokens) for share in batch if share.sample
        }
        num_tokens = sum(len(share.token_ids) for share in batch)
        keys = sum(share.start + len(share.token_ids) for share in batch)
        return StepResult(tokens, make_duration(num_tokens, keys), detail=StepDetail("overhead", keys / 3, None))

    def decode_steps(self, starts: Sequence[int]) -> Iterator[tuple[float, StepDetail | None]]:
        keys = sum(starts) + len(starts)
        while True:
            yield make_duration(len(starts), keys), StepDetail("overhead", keys / 3, None)
            keys += len(starts)

    def decode_tokens(self, params: SamplingParams, first_index: int, num_tokens: int) -> list[int]:
        return [make_token(params, index) for index in range(first_index, first_index + num_tokens)]


def make_duration(num_tokens: int, keys: int) -> float:
    return 0.1 + num_tokens / 7 + keys / 113


def make_token(params: SamplingParams, index: int) -> int:
    """Repeats itself, so that answers to one prompt are often the same and their blocks too."""
    return (params.seed * 5 + index * index) % VOCAB_SIZE
