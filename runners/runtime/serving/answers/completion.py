"""Answers of /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runners.runtime.sequence import TokenLogprobs
from runners.runtime.serving.answers.frame import Answer
from runners.runtime.serving.answers.logprobs import CompletionLogprobs, prompt_logprobs
from runners.runtime.serving.answers.usage import usage
from runners.runtime.serving.jobs import Job
from runners.runtime.serving.protocol.completions import CompletionBody
from runners.runtime.serving.sequence_stream import Delta, SequenceStream
from runners.runtime.tokenizer import Tokenizer


class CompletionAnswer(Answer):
    ID_PREFIX, OBJECT, CHUNK_OBJECT = "cmpl", "text_completion", "text_completion"

    def __init__(self, request_id: str, model: str, job: Job, body: CompletionBody, tokenizer: Tokenizer) -> None:
        super().__init__(request_id, model, job)
        self._body = body
        self._tokenizer = tokenizer
        self._logprobs = [CompletionLogprobs(tokenizer) for _ in job.streams]

    def chunk_choice(self, index: int, delta: Delta, *, first: bool) -> dict[str, Any]:
        echo = self._body.echo and first
        text = "" if self._body.prompt_only else delta.text
        choice: dict[str, Any] = {
            "text": (self.job.prompt_of(index).text if echo else "") + text,
            "logprobs": self._shown_logprobs(index, delta, echo=echo),
        }
        if self._body.return_token_ids:
            choice["token_ids"] = [] if self._body.prompt_only else list(delta.token_ids)
        return choice

    def whole_choice(self, index: int, delta: Delta) -> dict[str, Any]:
        choice = self.chunk_choice(index, delta, first=True)
        found = self.job.streams[index].prompt_logprobs
        if self._body.prompt_logprobs is not None and found is not None:
            shown = [_most(entry, self._body.prompt_logprobs) for entry in found]
            choice["prompt_logprobs"] = prompt_logprobs(shown, self._tokenizer)
        return choice

    def usage(self) -> dict[str, Any]:
        return usage(self.job.streams, self.job.per_prompt, prompt_only=self._body.prompt_only)

    def finish_reason(self, stream: SequenceStream, reason: str) -> str:
        return "length" if self._body.prompt_only else reason

    def _shown_logprobs(self, index: int, delta: Delta, *, echo: bool) -> dict[str, Any] | None:
        most = self._body.logprobs
        if most is None:
            return None
        entries: list[TokenLogprobs | None] = [] if self._body.prompt_only else list(delta.logprobs)
        ids: Sequence[int] = [entry.chosen.token_id for entry in delta.logprobs] if entries else []
        if echo:
            stream = self.job.streams[index]
            found = stream.prompt_logprobs or (None,) * len(stream.prompt_ids)
            entries = [*(_most(entry, most) for entry in found), *entries]
            ids = [*stream.prompt_ids, *ids]
        return self._logprobs[index].show(ids, entries)


def _most(entry: TokenLogprobs | None, count: int) -> TokenLogprobs | None:
    """With no more than `count` of the most likely tokens: the engine gives as many as the greater of two wishes."""
    return entry and TokenLogprobs(entry.chosen, entry.top[:count])
