"""The frame that all events of one response share; what stands in a choice is for the endpoint's own class to say."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from runners.runtime.serving.answers.usage import lab, lab_of_all, usage
from runners.runtime.serving.jobs import Job
from runners.runtime.serving.sequence_stream import Delta, SequenceStream


class Answer(ABC):
    """One response over the sequences of `job`."""

    ID_PREFIX = ""
    OBJECT = ""
    CHUNK_OBJECT = ""

    def __init__(self, request_id: str, model: str, job: Job) -> None:
        self.request_id = request_id
        self.job = job
        self._head = {"id": f"{self.ID_PREFIX}-{request_id}", "created": int(time.time()), "model": model}
        self._begun: set[int] = set()

    def chunk(self, index: int, delta: Delta) -> dict[str, Any]:
        """One stream event. The first of a choice carries its role, or its echo, along with its text, never in an event
        of its own: an event without a token would pass for the first token."""
        stream = self.job.streams[index]
        finished = lab(stream) if delta.finish_reason else {"request_id": stream.request_id}
        first = index not in self._begun
        self._begun.add(index)
        choice = {"index": index, **self.chunk_choice(index, delta, first=first), **self._end(stream, delta)}
        return {
            **self._head,
            "object": self.CHUNK_OBJECT,
            "choices": [choice],
            "lab": {**finished, "tokens": delta.num_tokens},
        }

    def usage_chunk(self) -> dict[str, Any]:
        """The event after the last token, where `stream_options.include_usage` asks for it."""
        return {
            **self._head,
            "object": self.CHUNK_OBJECT,
            "choices": [],
            "usage": self.usage(),
            "lab": {**lab_of_all(self.request_id, self.job.streams), "tokens": 0},
        }

    def whole(self, deltas: list[Delta]) -> dict[str, Any]:
        """The body of an answer that is not streamed, from all that each sequence has produced."""
        return {
            **self._head,
            "object": self.OBJECT,
            "choices": [
                {"index": i, **self.whole_choice(i, delta), **self._end(self.job.streams[i], delta)}
                for i, delta in enumerate(deltas)
            ],
            "usage": self.usage(),
            "lab": lab_of_all(self.request_id, self.job.streams),
        }

    def usage(self) -> dict[str, Any]:
        return usage(self.job.streams, self.job.per_prompt)

    @abstractmethod
    def chunk_choice(self, index: int, delta: Delta, *, first: bool) -> dict[str, Any]:
        """What is new of a choice, beside its index and its end; `first` for the first event of it."""

    @abstractmethod
    def whole_choice(self, index: int, delta: Delta) -> dict[str, Any]:
        """All of a choice, beside its index and its end."""

    def finish_reason(self, stream: SequenceStream, reason: str) -> str:
        """In the words of the endpoint."""
        return reason

    def _end(self, stream: SequenceStream, delta: Delta) -> dict[str, Any]:
        if delta.finish_reason is None:
            return {"finish_reason": None}
        return {"finish_reason": self.finish_reason(stream, delta.finish_reason), "stop_reason": stream.stop_reason}
