"""Which requests the engine can serve at all. Whether one has to wait is for the scheduler to say."""

from __future__ import annotations

from runners.runtime.executor import Executor
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import ReceivedKV, SamplingParams


class RequestRejected(ValueError):
    """A request that can't be served as it stands, now or later; says what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.field}: {self.value} is not allowed; allowed: {self.allowed}"


def max_sequence_tokens(executor: Executor) -> int:
    """Prompt and output tokens that one sequence may have. Its last token is sampled but never stored."""
    return min(executor.max_model_len, executor.num_blocks * executor.block_size + 1)


def check_servable(
    num_prompt_tokens: int,
    params: SamplingParams,
    limit: int,
    config: SchedulerConfig,
    received: ReceivedKV | None = None,
) -> None:
    """Raise RequestRejected unless the request, alone on the engine, would end within `limit` tokens.

    A request for an embedding has no output, so that its `max_tokens` and `min_tokens` mean nothing.
    """
    if not num_prompt_tokens:
        raise RequestRejected("prompt", "an empty prompt", "at least one token")
    if num_prompt_tokens >= limit:
        raise RequestRejected("prompt", f"{num_prompt_tokens} tokens", f"at most {limit - 1} tokens")
    if not params.embed:
        _check_output(num_prompt_tokens, params, limit)
    if received is not None:
        _check_received(received, num_prompt_tokens, params)
    budget = config.max_num_batched_tokens
    uncomputed = num_prompt_tokens - (received.num_tokens if received is not None else 0)
    if uncomputed > budget and not config.chunked_prefill:
        allowed = f"at most max_num_batched_tokens ({budget}), as chunked_prefill is off"
        raise RequestRejected("prompt", f"{num_prompt_tokens} tokens", allowed)


def _check_output(num_prompt_tokens: int, params: SamplingParams, limit: int) -> None:
    if params.max_tokens < 1:
        raise RequestRejected("max_tokens", params.max_tokens, "at least 1")
    if not 0 <= params.min_tokens <= params.max_tokens:
        raise RequestRejected("min_tokens", params.min_tokens, f"0 to max_tokens ({params.max_tokens})")
    room = limit - num_prompt_tokens
    if params.max_tokens > room:
        allowed = f"at most {room}, as the prompt ({num_prompt_tokens}) and the output share {limit}"
        raise RequestRejected("max_tokens", params.max_tokens, allowed)


def _check_received(received: ReceivedKV, num_prompt_tokens: int, params: SamplingParams) -> None:
    """What comes from elsewhere must leave something to do here, and be all that a later step needs to know."""
    if params.embed or params.prompt_logprobs is not None:
        allowed = "a request without embed and prompt_logprobs, which come of computing the prompt"
        raise RequestRejected("received", "keys and values from elsewhere", allowed)
    num_output = len(received.output_ids)
    if num_output >= params.max_tokens:
        allowed = f"fewer than max_tokens ({params.max_tokens})"
        raise RequestRejected("received.output_ids", f"{num_output} tokens", allowed)
    total = num_prompt_tokens + num_output
    if not 0 < received.num_tokens < total:
        allowed = f"1 to {total - 1}, as the last of {total} tokens is always computed here"
        raise RequestRejected("received.num_tokens", received.num_tokens, allowed)
