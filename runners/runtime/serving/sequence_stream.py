"""What one sequence has produced and its HTTP response has not yet sent.

Tokens become text as they arrive, so a stop string ends a sequence at once however slow its client is; what
the client has not taken yet is merged. So a slow client costs memory for its own text alone, and no one else
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from runners.runtime.engine import RequestTiming
from runners.runtime.sequence import TokenLogprobs
from runners.runtime.serving.chat_output import ChatOutput, Part
from runners.runtime.serving.detokenize import Detokenizer
from runners.runtime.serving.errors import ApiError
from runners.runtime.serving.tool_calls.call import ToolCall


@dataclass(frozen=True, slots=True)
class Delta:
    """News of one sequence: text and how many tokens came since the last; `finish_reason` only in the last.

    `num_tokens` is how many tokens the engine made, also where their text is still held back; `logprobs` has one entry
    for each of them where they were asked for, `token_ids` one in any case. `calls` are (index in the answer, call).
    """

    text: str
    num_tokens: int
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    reasoning: str = ""
    calls: tuple[tuple[int, ToolCall], ...] = ()
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StopTokens:
    """`asked` are those that the client named; the text of `hidden` ones does not belong to the answer they end."""

    asked: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()


class SequenceStream:
    """Open → (stopping, when a stop string is complete) → finished or failed.

    `wake` is set at each change; the sequences of one HTTP request share it. `prompt_field` is what the client
    calls the prompt, for errors. `key` names it to the engine, once it is there. `chat` takes a chat's text apart.

    `prompt_logprobs` has one entry per prompt token, null for the first; `embedding` is the normed last hidden state of
    the prompt. The engine sets either, where it was asked for, before the sequence finishes. `stop_reason` is the stop
    string, or the client's stop token, that ended it.
    """

    def __init__(
        self,
        request_id: str,
        prompt_ids: tuple[int, ...],
        detokenizer: Detokenizer,
        wake: asyncio.Event,
        received_s: float,
        prompt_field: str = "prompt",
        stop_tokens: StopTokens = StopTokens(),
        chat: ChatOutput | None = None,
    ) -> None:
        self.request_id = request_id
        self.prompt_field = prompt_field
        self.prompt_ids = prompt_ids
        self.received_s = received_s
        self.key = ""
        self.accepted = False
        self.error: ApiError | None = None
        self.finish_reason: str | None = None
        self.stop_reason: str | int | None = None
        self.timing: RequestTiming | None = None
        self.last_token_s: float | None = None
        self.num_output_tokens = 0
        self.prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
        self.embedding: tuple[float, ...] | None = None
        self._detokenizer = detokenizer
        self._wake = wake
        self._stop_tokens = stop_tokens
        self._last_token_id = -1
        self._held_token_id: int | None = None  # a stop token, and not known yet to be the last
        self._chat = chat
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[int, ToolCall]] = []
        self._unsent_ids: list[int] = []
        self._logprobs: list[TokenLogprobs] = []
        self._last_sent = False

    @property
    def num_calls(self) -> int:
        return self._chat.num_calls if self._chat else 0

    @property
    def num_reasoning_tokens(self) -> int:
        return self._chat.num_reasoning_tokens if self._chat else 0

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
        self._unsent_ids.append(token_id)
        if logprobs is not None:
            self._logprobs.append(logprobs)
        self._show_held_token()
        self._last_token_id = token_id
        if token_id in self._stop_tokens.hidden:
            self._held_token_id = token_id
        else:
            self._say(self._detokenizer.push(token_id))
        self._wake.set()

    def finish(self, reason: str, timing: RequestTiming | None) -> None:
        """The engine holds nothing of it any more."""
        if self.closed:
            return
        if reason == "stop":
            self._held_token_id = None
            self.stop_reason = self._last_token_id if self._last_token_id in self._stop_tokens.asked else None
        self._show_held_token()
        if not self._detokenizer.stopped:
            self._say(self._detokenizer.finish(), num_tokens=0)
        if self._chat is not None:
            self._keep(self._chat.finish())
        if self._detokenizer.stopped:
            reason, self.stop_reason = "stop", self._detokenizer.found_stop
        self.finish_reason = reason
        self.timing = timing
        self._wake.set()

    def _show_held_token(self) -> None:
        """A stop token that did not end the sequence is text like any other."""
        if self._held_token_id is not None:
            self._say(self._detokenizer.push(self._held_token_id))
            self._held_token_id = None

    def _say(self, text: str, num_tokens: int = 1) -> None:
        if self._chat is None:
            self._text.append(text)
        else:
            self._keep(self._chat.push(text, num_tokens))

    def _keep(self, part: Part) -> None:
        self._text.append(part.text)
        self._reasoning.append(part.reasoning)
        self._calls += part.calls

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
        if not self._unsent_ids and not last:
            return None
        delta = Delta(
            text="".join(self._text),
            num_tokens=len(self._unsent_ids),
            finish_reason=self.finish_reason,
            logprobs=tuple(self._logprobs),
            reasoning="".join(self._reasoning),
            calls=tuple(self._calls),
            token_ids=tuple(self._unsent_ids),
        )
        for taken in (self._text, self._reasoning, self._calls, self._logprobs, self._unsent_ids):
            taken.clear()
        self._last_sent = last or self._last_sent
        return delta


async def wait_accepted(streams: Sequence[SequenceStream], wake: asyncio.Event) -> None:
    """Until the engine has taken every sequence. Raises the ApiError of the first that it refused."""
    await _wait_for_all(streams, wake, lambda stream: stream.accepted)


async def wait_finished(streams: Sequence[SequenceStream], wake: asyncio.Event) -> None:
    """Until every sequence has finished. Raises the ApiError of the first that failed."""
    await _wait_for_all(streams, wake, lambda stream: stream.finish_reason is not None)


async def _wait_for_all(
    streams: Sequence[SequenceStream], wake: asyncio.Event, is_done: Callable[[SequenceStream], bool]
) -> None:
    while True:
        wake.clear()
        for stream in streams:
            if stream.error is not None:
                raise stream.error
        if all(map(is_done, streams)):
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
