"""What one sequence has produced and its HTTP response has not yet sent.

Tokens become text as they arrive, so a stop string ends a sequence at once however slow its client is; what
the client has not taken yet is merged. So a slow client costs memory for its own text alone, and no one else
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from runners.runtime.engine import RequestTiming
from runners.runtime.sequence import TokenLogprobs
from runners.runtime.serving.detokenize import Detokenizer
from runners.runtime.serving.errors import ApiError


@dataclass(frozen=True, slots=True)
class Delta:
    """News of one sequence: text and how many tokens came since the last; `finish_reason` only in the last.

    `num_tokens` is how many tokens the engine made, also where their text is still held back. `logprobs` has one entry
    for each of them, where the request asked for them.
    """

    text: str
    num_tokens: int
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()


class SequenceStream:
    """Open → (stopping, when a stop string is complete) → finished or failed.

    `wake` is set at each change; the sequences of one HTTP request share it. `prompt_field` is what the client
    calls the prompt, for errors. `key` names it to the engine, once it is there.

    `prompt_logprobs` has one entry per prompt token, null for the first; `embedding` is the normed last hidden state of
    the prompt. The engine sets either, where it was asked for, before the sequence finishes.
    """

    def __init__(
        self,
        request_id: str,
        prompt_ids: tuple[int, ...],
        detokenizer: Detokenizer,
        wake: asyncio.Event,
        received_s: float,
        prompt_field: str = "prompt",
    ) -> None:
        self.request_id = request_id
        self.prompt_field = prompt_field
        self.prompt_ids = prompt_ids
        self.received_s = received_s
        self.key = ""
        self.accepted = False
        self.error: ApiError | None = None
        self.finish_reason: str | None = None
        self.timing: RequestTiming | None = None
        self.last_token_s: float | None = None
        self.num_output_tokens = 0
        self.prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
        self.embedding: tuple[float, ...] | None = None
        self._detokenizer = detokenizer
        self._wake = wake
        self._text: list[str] = []
        self._num_unsent = 0
        self._logprobs: list[TokenLogprobs] = []
        self._last_sent = False

    @property
    def stopping(self) -> bool:
        """A stop string is complete; the engine has yet to confirm that it let the sequence go."""
        return self._detokenizer.stopped and self.finish_reason is None

    @property
    def closed(self) -> bool:
        return self.finish_reason is not None or self.error is not None

    def accept(self) -> None:
        self.accepted = True
        self._wake.set()

    def push(self, token_id: int, logprobs: TokenLogprobs | None = None) -> None:
        """One more token. Tokens after a complete stop string do not belong to the answer and are dropped."""
        if self.closed or self._detokenizer.stopped:
            return
        self.num_output_tokens += 1
        self._num_unsent += 1
        self._text.append(self._detokenizer.push(token_id))
        if logprobs is not None:
            self._logprobs.append(logprobs)
        self._wake.set()

    def finish(self, reason: str, timing: RequestTiming | None) -> None:
        """The engine holds nothing of it any more."""
        if self.closed:
            return
        if not self._detokenizer.stopped:
            self._text.append(self._detokenizer.finish())
        self.finish_reason = "stop" if self._detokenizer.stopped else reason
        self.timing = timing
        self._wake.set()

    def fail(self, error: ApiError) -> None:
        if not self.closed:
            self.error = error
            self._wake.set()

    def take(self) -> Delta | None:
        """What is new since the last call; null when nothing is. Raises the ApiError that ended the
        sequence."""
        if self.error is not None:
            raise self.error
        last = self.finish_reason is not None and not self._last_sent
        if not self._num_unsent and not last:
            return None
        delta = Delta("".join(self._text), self._num_unsent, self.finish_reason, tuple(self._logprobs))
        self._text.clear()
        self._logprobs.clear()
        self._num_unsent = 0
        self._last_sent = last or self._last_sent
        return delta


async def wait_accepted(streams: Sequence[SequenceStream], wake: asyncio.Event) -> None:
    """Until the engine has taken every sequence. Raises the ApiError of the first that it refused."""
    while True:
        wake.clear()
        for stream in streams:
            if stream.error is not None:
                raise stream.error
        if all(stream.accepted for stream in streams):
            return
        await wake.wait()


async def deltas(streams: Sequence[SequenceStream], wake: asyncio.Event) -> AsyncIterator[tuple[int, Delta]]:
    """(index of the sequence, what is new of it) until all have finished. Raises ApiError when one fails."""
    left = dict(enumerate(streams))
    while left:
        wake.clear()
        for index, stream in list(left.items()):
            delta = stream.take()
            if delta is not None:
                yield index, delta
                if delta.finish_reason is not None:
                    del left[index]
        if left:
            await wake.wait()
