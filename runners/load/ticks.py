"""The client's half of the 250 ms samples: what arrived since the last tick, and how late.

The runtime's half (steps) is joined by whoever has both. Figures here are for the live view; the results are
computed from the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from runners.events import RequestRecord
from runners.load.planned import Phase
from runners.load.trace import RequestTrace

TICK_S = 0.25

Array = npt.NDArray[np.float64]


class TickCounter:
    """Counts between ticks. A prompt's tokens count when its first output token arrives: it is computed then."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.phase: Phase = "warmup"
        self._since_s = 0.0
        self._clear()

    def sent(self) -> None:
        self.in_flight += 1

    def tokens(self, trace: RequestTrace, count: int) -> None:
        """After `trace` took a stream event of `count` tokens."""
        self._output_tokens += count
        times = trace.token_times_s
        if len(times) == 1:
            self._input_tokens += len(trace.request.prompt_ids)
            self._ttfts_s.append(times[0] - trace.sent_s)
        else:
            self._gaps_s.append(times[-1] - times[-2])
        self._gaps_s.extend([0.0] * (count - 1))

    def single_tokens(self, before_s: float, times_s: Sequence[float], num_requests: int) -> None:
        """After each of `num_requests` requests, which had a token at `before_s`, got one at each of `times_s`."""
        self._output_tokens += len(times_s) * num_requests
        self._alike.extend([(later - earlier, num_requests) for earlier, later in pairwise((before_s, *times_s))])

    def ended(self, record: RequestRecord) -> None:
        self.in_flight -= 1
        if record.status == "ok":
            self._finished += 1
        elif record.status != "cancelled":
            self._errors += 1

    def take(self, t_s: float) -> dict[str, Any]:
        """The fields of events.Sample that a client knows, for the interval that ends at `t_s`; starts the next."""
        ttfts_s = _percentiles(np.array(self._ttfts_s))
        gaps_s = _percentiles(np.concatenate([self._gaps_s, self._repeated_gaps()]))
        tick = {
            "t_s": t_s,
            "interval_s": t_s - self._since_s,
            "phase": self.phase,
            "input_tokens": self._input_tokens,
            "output_tokens": self._output_tokens,
            "finished": self._finished,
            "errors": self._errors,
            "in_flight": self.in_flight,
            "ttft_p50_s": ttfts_s[0],
            "ttft_p95_s": ttfts_s[1],
            "itl_p50_s": gaps_s[0],
            "itl_p95_s": gaps_s[1],
        }
        self._since_s = t_s
        self._clear()
        return tick

    def _clear(self) -> None:
        self._input_tokens = self._output_tokens = self._finished = self._errors = 0
        self._ttfts_s: list[float] = []
        self._gaps_s: list[float] = []
        self._alike: list[tuple[float, int]] = []

    def _repeated_gaps(self) -> Array:
        """Gaps that came for many requests at once, as often as they came."""
        if not self._alike:
            return np.empty(0)
        gaps_s, times = zip(*self._alike, strict=True)
        return np.repeat(np.array(gaps_s), np.array(times))


def _percentiles(values: Array) -> tuple[float | None, float | None]:
    """The 50th and the 95th, linearly interpolated as numpy does by default, but both from one sorting."""
    if not values.size:
        return None, None
    ordered = np.sort(values)
    return _at(ordered, 0.5), _at(ordered, 0.95)


def _at(ordered: Array, share: float) -> float:
    place = share * (ordered.size - 1)
    below = int(place)
    low, high = float(ordered[below]), float(ordered[min(below + 1, ordered.size - 1)])
    return low + (high - low) * (place - below)
