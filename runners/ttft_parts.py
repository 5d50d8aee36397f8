"""Where the time to a first token went: the parts that METRICS.md splits it into, from the records of both ends.

client wait (`sent − scheduled`) + network (`queued − sent`) + queue (`scheduled_first − queued`) + prefill
(`prefill_done − scheduled_first`) + first sample (`first_token − prefill_done`) is the effective TTFT, and without the
client wait the TTFT. The way back of the first token lies in the first sample: neither end sees when it left.

A request is split where the runtime told its times, by the clock that the client has: an engine elsewhere tells none.
Queue and prefill have figures of their own (`queue_wait`, `prefill_time` in `runners.metrics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from runners.events import RequestRecord
from runners.validity import THRESHOLDS

PARTS = ("client_wait", "network", "queue", "prefill", "first_sample")
SKEW_S = THRESHOLDS["clock_skew"]
"""Seconds by which a part may be negative before the two ends' clocks are taken for different ones."""


@dataclass(frozen=True)
class TtftParts:
    """Seconds, in the order of PARTS. A part may be below 0 by what the clocks of the two ends differ."""

    client_wait: float
    network: float
    queue: float
    prefill: float
    first_sample: float

    @property
    def ttft_s(self) -> float:
        return fsum((self.network, self.queue, self.prefill, self.first_sample))

    @property
    def effective_ttft_s(self) -> float:
        return fsum((self.client_wait, self.network, self.queue, self.prefill, self.first_sample))


def split_ttft(record: RequestRecord) -> TtftParts | None:
    """None where no token came, where the runtime told no times, or where they are of another clock."""
    if (
        record.first_token_s is None
        or record.queued_s is None
        or record.scheduled_first_s is None
        or record.prefill_done_s is None
    ):
        return None
    times = (record.scheduled_s, record.sent_s, record.queued_s, record.scheduled_first_s, record.prefill_done_s)
    parts = [later - earlier for earlier, later in zip(times, (*times[1:], record.first_token_s), strict=True)]
    return TtftParts(*parts) if min(parts) >= -SKEW_S else None


def part_values(records: Sequence[RequestRecord]) -> dict[str, list[float]]:
    """Of those parts that no other figure is: each split request's, in s."""
    split = [parts for record in records if (parts := split_ttft(record)) is not None]
    return {
        "client_wait": [parts.client_wait for parts in split],
        "network_time": [parts.network for parts in split],
        "first_sample_time": [parts.first_sample for parts in split],
    }


def mean_parts(records: Sequence[RequestRecord]) -> dict[str, Any] | None:
    """`{"n", "ttft_s", "mean_s": {part: s}}` over the requests that can be split: means, as medians do not add up.
    None where none can be."""
    split = [(record, parts) for record in records if (parts := split_ttft(record)) is not None]
    if not split:
        return None
    n = len(split)
    told = fsum((record.first_token_s or 0.0) - record.sent_s for record, _ in split)
    means = {name: fsum(getattr(parts, name) for _, parts in split) / n for name in PARTS}
    return {"n": n, "ttft_s": told / n, "mean_s": means}
