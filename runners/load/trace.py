"""One request as its client sees it: events arrive, a RequestRecord comes out. Knows no transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runners.events import RequestRecord
from runners.load.planned import PlannedRequest

Outcome = Literal["ok", "error", "cancelled", "timeout"]


@dataclass(slots=True)
class RequestTrace:
    """Times are on the run's clock; `runtime` is the server's side, where it told it. `refused`: no connection.
    `headers_s`: when the response's headers came, on a network. `texts` are the parts of an answer that is checked."""

    request: PlannedRequest
    scheduled_s: float
    sent_s: float
    token_times_s: list[float] = field(default_factory=list)
    token_counts: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    refused: bool = False
    headers_s: float | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    runtime: dict[str, float | int | None] = field(default_factory=dict)

    def add_tokens(self, t_s: float, count: int) -> None:
        """One stream event arrived with `count` output tokens."""
        self.token_times_s.append(t_s)
        self.token_counts.append(count)

    def add_single_tokens(self, times_s: Sequence[float]) -> None:
        """As many stream events arrived, one output token in each."""
        self.token_times_s.extend(times_s)
        self.token_counts.extend([1] * len(times_s))

    @property
    def counted_tokens(self) -> int:
        return sum(self.token_counts)

    @property
    def output_ids(self) -> tuple[int, ...] | None:
        """Ids of the whole output; None where the server did not tell each of them."""
        return tuple(self.token_ids) if self.token_ids and len(self.token_ids) == self.counted_tokens else None

    def take_usage(self, usage: Mapping[str, Any]) -> None:
        """OpenAI's usage object."""
        self.input_tokens = usage.get("prompt_tokens")
        self.output_tokens = usage.get("completion_tokens")
        self.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")

    def take_runtime(self, timing: Mapping[str, Any], zero_s: float) -> None:
        """The runtime's side of the request; its times are shifted to the run's clock, whose zero is `zero_s`."""
        for name in ("queued_s", "scheduled_first_s", "prefill_done_s"):
            if timing.get(name) is not None:
                self.runtime[name] = timing[name] - zero_s
        for name in ("preemptions", "draft_tokens", "accepted_tokens"):
            self.runtime[name] = timing.get(name)

    def end(self, t_s: float, status: Outcome, error: str | None = None) -> RequestRecord:
        """The record. `finished_s` is when the last token arrived; null where the request did not finish.

        Output tokens of a request that broke off are those that arrived.
        """
        last_s = self.token_times_s[-1] if self.token_times_s else t_s
        return RequestRecord(
            index=self.request.number,
            request_id=self.request.request_id,
            phase=self.request.phase,
            scheduled_s=self.scheduled_s,
            sent_s=self.sent_s,
            first_token_s=self.token_times_s[0] if self.token_times_s else None,
            token_times_s=self.token_times_s,
            token_counts=self.token_counts,
            finished_s=last_s if status == "ok" else None,
            input_tokens=len(self.request.prompt_ids) if self.input_tokens is None else self.input_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.counted_tokens if self.output_tokens is None else self.output_tokens,
            target_output_tokens=self.request.params.max_tokens,
            status=status,
            finish_reason=self.finish_reason,
            error=error,
            session=self.request.session,
            turn=self.request.turn,
            session_requests=self.request.session_requests,
            traffic_class=self.request.traffic_class,
            thinking_tokens=self._thinking_tokens(),
            headers_s=self.headers_s,
            correct=self._is_correct() if status == "ok" else None,
            **self.runtime,
        )

    def _is_correct(self) -> bool | None:
        return None if self.request.check is None else self.request.check("".join(self.texts))

    def _thinking_tokens(self) -> int | None:
        """As many as were planned, or arrived where the output broke off before."""
        planned = self.request.thinking_tokens
        return None if planned is None else min(planned, self.counted_tokens)
