"""How long a recorded request may be on a model: what a trace's lengths become where the model takes less.

A prompt is cut before an answer is, but no answer is longer than half of what the model takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from runners.spec.trace import TraceExtent
from runners.spec.workload import MAX_OUTPUT_TOKENS
from runners.traces.rows import TraceRow


def clip(input_tokens: int, output_tokens: int, max_model_len: int) -> tuple[int, int]:
    """The lengths, together at most `max_model_len` (at least 2), each at least 1."""
    most_output = min(max(max_model_len - input_tokens, max_model_len // 2), MAX_OUTPUT_TOKENS)
    output = min(output_tokens, most_output)
    return min(input_tokens, max_model_len - output), output


@dataclass
class Clipped:
    """Counts the requests whose prompts or answers were cut, the tokens that they lost, and those of the prompts left
    that others may share by the trace's own word."""

    requests: int = 0
    prompts: int = 0
    outputs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    shared_tokens: int = 0
    seen: int = field(default=0)

    def take(self, row: TraceRow, input_tokens: int, output_tokens: int, shared_tokens: int) -> None:
        lost_input, lost_output = row.input_tokens - input_tokens, row.output_tokens - output_tokens
        self.seen += 1
        self.requests += bool(lost_input or lost_output)
        self.prompts += bool(lost_input)
        self.outputs += bool(lost_output)
        self.input_tokens += lost_input
        self.output_tokens += lost_output
        self.shared_tokens += shared_tokens

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.seen,
            "clipped_requests": self.requests,
            "clipped_prompts": self.prompts,
            "clipped_outputs": self.outputs,
            "lost_input_tokens": self.input_tokens,
            "lost_output_tokens": self.output_tokens,
            "shared_tokens": self.shared_tokens,
        }


def extent_of(rows: Iterable[TraceRow], start_s: float = 0.0) -> TraceExtent | None:
    """How much the rows are, in the order of their times; None where there are none."""
    requests = longest = longest_input = longest_output = input_tokens = output_tokens = 0
    last_s = start_s
    for row in rows:
        requests += 1
        last_s = row.timestamp_s
        longest = max(longest, row.input_tokens + row.output_tokens)
        longest_input, longest_output = max(longest_input, row.input_tokens), max(longest_output, row.output_tokens)
        input_tokens, output_tokens = input_tokens + row.input_tokens, output_tokens + row.output_tokens
    if not requests:
        return None
    return TraceExtent(
        requests=requests, lasts_s=last_s - start_s, longest_input=longest_input, longest_output=longest_output,
        longest=longest, input_tokens=input_tokens, output_tokens=output_tokens,
    )  # fmt: skip
