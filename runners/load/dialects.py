"""What engines' /v1/completions take beyond what OpenAI's takes, and how their streams tell tokens.

One dialect for each engine: the fields of a request's body, and how many output tokens a stream has carried so far.
Sending and timing are in runners.load.http. A field that an engine has no name for is left out, never put under
another name: whether outputs then have the length asked for is seen in the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runners.load.planned import PlannedRequest

Fields = dict[str, Any]
Prompt = tuple[int, ...] | str
MAX_UINT32 = 2**32 - 1


@dataclass(frozen=True)
class Dialect:
    """`more` gives the fields of a request that OpenAI's body has not, `told` the output tokens that a stream event
    says were made so far, None where it does not say. An engine that does not `keep_alive` ends a connection after a
    streamed answer without saying so: each request then has a connection of its own, which its TTFT includes."""

    name: str
    more: Callable[[PlannedRequest], Fields]
    told: Callable[[Mapping[str, Any]], int | None]
    keep_alive: bool = True

    def body(self, request: PlannedRequest, model: str, prompt: Prompt) -> bytes:
        params = request.params
        body: Fields = {
            "model": model,
            "prompt": prompt,
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "seed": params.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(body | self.more(request), separators=(",", ":")).encode()


def _nothing_told(chunk: Mapping[str, Any]) -> int | None:
    return None


def _told_by_usage(chunk: Mapping[str, Any]) -> int | None:
    usage = chunk.get("usage")
    return int(usage["completion_tokens"]) if usage and chunk.get("choices") else None


def _told_by_timings(chunk: Mapping[str, Any]) -> int | None:
    timings = chunk.get("timings")
    return int(timings["predicted_n"]) if timings and "predicted_n" in timings else None


def _lab(request: PlannedRequest) -> Fields:
    params = request.params
    more: Fields = {"min_tokens": params.min_tokens, "top_k": params.top_k, "ignore_eos": params.ignore_eos}
    if request.priority:
        more["priority"] = request.priority
    if not request.is_last:
        # Its answer stands in the session's next prompt.
        more["return_token_ids"] = True
    return more


def _vllm(request: PlannedRequest) -> Fields:
    return _lab(request) | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def _sglang(request: PlannedRequest) -> Fields:
    params = request.params
    return {
        "min_tokens": params.min_tokens,
        "top_k": params.top_k or -1,
        "ignore_eos": params.ignore_eos,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def _llamacpp(request: PlannedRequest) -> Fields:
    """Its own defaults would cut unlikely tokens (`min_p`); its seeds have 32 bits, of which the last is "draw one"."""
    params = request.params
    return {
        "top_k": params.top_k,
        "min_p": 0.0,
        "seed": params.seed % MAX_UINT32,
        "ignore_eos": params.ignore_eos,
        "timings_per_token": True,
    }


def _openai(request: PlannedRequest) -> Fields:
    return {}


LAB = Dialect("lab", _lab, _nothing_told)
DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        LAB,
        Dialect("vllm", _vllm, _told_by_usage),
        Dialect("sglang", _sglang, _told_by_usage),
        Dialect("llamacpp", _llamacpp, _told_by_timings, keep_alive=False),
        Dialect("openai", _openai, _nothing_told),
    )
}
