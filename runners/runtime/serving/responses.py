"""Answers in OpenAI's shapes, with a `lab` object beside them: the runtime's own times on the host's
monotonic clock.

Every stream event says in `lab.tokens` how many tokens it stands for (0 where none), so that a client can
count latencies between tokens exactly, also where text is held back. Pure: values in, dictionaries out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from runners.runtime.serving.sequence_stream import Delta, SequenceStream


def usage(streams: Sequence[SequenceStream]) -> dict[str, Any]:
    """Token counts over all sequences of the request. Prompt tokens include those the prefix cache had."""
    prompt = sum(len(stream.prompt_ids) for stream in streams)
    output = sum(stream.num_output_tokens for stream in streams)
    cached = sum(stream.timing.cached_tokens for stream in streams if stream.timing is not None)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
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
    """One sequence's object, or one per prompt where the request had several."""
    if len(streams) == 1:
        return lab(streams[0])
    return {"request_id": request_id, "prompts": [lab(stream) for stream in streams]}


class Answer:
    """The frame that all events of one response share."""

    def __init__(self, kind: Literal["chat", "completion"], request_id: str, model: str) -> None:
        self.kind = kind
        self.request_id = request_id
        self._head = {
            "id": f"{'chatcmpl' if kind == 'chat' else 'cmpl'}-{request_id}",
            "created": int(time.time()),
            "model": model,
        }

    def chunk(self, index: int, delta: Delta, stream: SequenceStream, *, first: bool) -> dict[str, Any]:
        """One stream event. The first of a chat carries the role along with its text, never an event of its
        own: an event without a token would pass for the first token."""
        finished = lab(stream) if delta.finish_reason else {"request_id": stream.request_id}
        choice: dict[str, Any] = {"index": index}
        if self.kind == "chat":
            role = {"role": "assistant"} if first else {}
            choice["delta"] = {**role, "content": delta.text}
        else:
            choice["text"] = delta.text
        choice |= {"logprobs": None, "finish_reason": delta.finish_reason}
        return {
            **self._head,
            "object": "chat.completion.chunk" if self.kind == "chat" else "text_completion",
            "choices": [choice],
            "lab": {**finished, "tokens": delta.num_tokens},
        }

    def usage_chunk(self, streams: Sequence[SequenceStream]) -> dict[str, Any]:
        """The event after the last token, where `stream_options.include_usage` asks for it."""
        return {
            **self._head,
            "object": "chat.completion.chunk" if self.kind == "chat" else "text_completion",
            "choices": [],
            "usage": usage(streams),
            "lab": {**lab_of_all(self.request_id, streams), "tokens": 0},
        }

    def whole(self, texts: Sequence[str], streams: Sequence[SequenceStream]) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        return {
            **self._head,
            "object": "chat.completion" if self.kind == "chat" else "text_completion",
            "choices": [self._choice(i, text, streams[i]) for i, text in enumerate(texts)],
            "usage": usage(streams),
            "lab": lab_of_all(self.request_id, streams),
        }

    def _choice(self, index: int, text: str, stream: SequenceStream) -> dict[str, Any]:
        content: dict[str, Any] = (
            {"message": {"role": "assistant", "content": text}} if self.kind == "chat" else {"text": text}
        )
        return {"index": index, **content, "logprobs": None, "finish_reason": stream.finish_reason}
