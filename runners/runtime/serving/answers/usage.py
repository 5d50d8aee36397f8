"""What a request took: token counts as OpenAI has them, and the runtime's own times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from runners.runtime.serving.sequence_stream import SequenceStream


def usage(streams: Sequence[SequenceStream], per_prompt: int, *, prompt_only: bool = False) -> dict[str, Any]:
    """Token counts over all sequences of the request. A prompt counts once, however many answers it has. Prompt tokens
    include those the prefix cache had."""
    first = streams[::per_prompt]
    prompt = sum(len(stream.prompt_ids) for stream in first)
    output = 0 if prompt_only else sum(stream.num_output_tokens for stream in streams)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": sum(s.timing.cached_tokens for s in first if s.timing is not None)},
        "completion_tokens_details": {"reasoning_tokens": sum(stream.num_reasoning_tokens for stream in streams)},
    }


def lab(stream: SequenceStream) -> dict[str, Any]:
    """A finished sequence's side of METRICS.md, in seconds of this host's monotonic clock."""
    timing = {} if stream.timing is None else asdict(stream.timing)
    return {
        "request_id": stream.request_id,
        "received_s": stream.received_s,
        "output_tokens": stream.num_output_tokens,
        **timing,
    }


def lab_of_all(request_id: str, streams: Sequence[SequenceStream]) -> dict[str, Any]:
    """One sequence's object, or one per answer where the request had several."""
    if len(streams) == 1:
        return lab(streams[0])
    return {"request_id": request_id, "prompts": [lab(stream) for stream in streams]}
