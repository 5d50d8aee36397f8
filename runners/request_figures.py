"""The figures of one request, as METRICS.md defines them: seconds, from its record alone. Pure.

A figure that the record does not give is None. What binds a request is in `runners.objectives`.
"""

from __future__ import annotations

from itertools import pairwise

from runners.events import RequestRecord


def ttft_s(record: RequestRecord) -> float | None:
    return None if record.first_token_s is None else record.first_token_s - record.sent_s


def effective_ttft_s(record: RequestRecord) -> float | None:
    return None if record.first_token_s is None else record.first_token_s - record.scheduled_s


def tpot_s(record: RequestRecord) -> float | None:
    if record.first_token_s is None or record.finished_s is None or (record.output_tokens or 0) < 2:
        return None
    return (record.finished_s - record.first_token_s) / ((record.output_tokens or 0) - 1)


def e2el_s(record: RequestRecord) -> float | None:
    return None if record.finished_s is None else record.finished_s - record.sent_s


def interactivity(record: RequestRecord) -> float | None:
    """Tokens per second as one user sees them: 1 / TPOT. None where TPOT is undefined or 0."""
    tpot = tpot_s(record)
    return 1 / tpot if tpot else None


def chunk_gaps_s(record: RequestRecord) -> list[float]:
    """ICL: gaps between consecutive stream events that carried tokens."""
    times = [t for t, k in zip(record.token_times_s, record.token_counts, strict=True) if k > 0]
    return [later - earlier for earlier, later in pairwise(times)]


def token_gaps_s(record: RequestRecord) -> list[float]:
    """ITL: an event with k tokens gives its gap once and k − 1 zeros, so the gaps number `output tokens − 1`."""
    gaps: list[float] = []
    last: float | None = None
    for time_s, count in zip(record.token_times_s, record.token_counts, strict=True):
        if count <= 0:
            continue
        if last is not None:
            gaps.append(time_s - last)
        gaps.extend([0.0] * (count - 1))
        last = time_s
    return gaps
