"""Thinking apart from the answer: when an answer's first token came, and how many tokens were answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from runners.events import RequestRecord


def time_to_answer_s(record: RequestRecord) -> float | None:
    """From the sending to the first token after the thinking; None where none came."""
    if record.thinking_tokens is None:
        return None
    seen = 0
    for time_s, count in zip(record.token_times_s, record.token_counts, strict=True):
        seen += count
        if seen > record.thinking_tokens:
            return time_s - record.sent_s
    return None


def count_thinking(records: Iterable[RequestRecord]) -> int:
    return sum(min(record.thinking_tokens or 0, record.output_tokens or 0) for record in records)
