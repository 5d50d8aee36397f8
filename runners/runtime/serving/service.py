"""What the HTTP handlers serve from: the model's name, its tokenizer, its engine, and whether all of that is up."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runners.runtime.serving.detokenize import Detokenizer
from runners.runtime.serving.engine_client import EngineClient
from runners.runtime.serving.errors import ApiError, bad_field, unavailable
from runners.runtime.serving.messages import Ready
from runners.runtime.serving.metrics import ServerMetrics
from runners.runtime.serving.protocol import ChatBody, CompletionBody, GenerationBody
from runners.runtime.serving.sequence_stream import SequenceStream
from runners.runtime.serving.steps import StepRing
from runners.runtime.tokenizer import TextError, Tokenizer

ENGINE_LOADS = "the engine loads"


@dataclass
class Service:
    """Loading → ready → draining, or failed. `phase` says it in words for /health."""

    model: str
    engine: EngineClient
    metrics: ServerMetrics
    steps: StepRing
    phase: str = "starting"
    draining: bool = False
    tokenizer: Tokenizer | None = None
    facts: Ready | None = None
    stop_token_ids: tuple[int, ...] = ()
    created_s: int = 0

    @property
    def ready(self) -> bool:
        return self.tokenizer is not None and self.facts is not None and self.engine.alive and not self.draining

    @property
    def current_phase(self) -> str:
        """The phase for people: while the engine loads, in its own words."""
        return self.engine.phase if self.phase == ENGINE_LOADS else self.phase

    def check_ready(self) -> tuple[Tokenizer, Ready]:
        if self.draining:
            raise unavailable("the server is shutting down", "shutting_down", retry_after_s=5)
        if self.engine.ended.done():
            raise unavailable(f"the engine has ended: {self.engine.ended.result()}", "engine_unavailable")
        if self.tokenizer is None or self.facts is None or not self.engine.alive:
            raise unavailable(f"the model is not ready yet: {self.current_phase}", "loading", retry_after_s=1)
        return self.tokenizer, self.facts

    def check_model(self, name: str) -> None:
        if name != self.model:
            raise ApiError(
                404,
                f"the model {name[:80]!r} is not served here; served: {self.model!r}",
                param="model",
                code="model_not_found",
            )

    async def open_streams(
        self, body: GenerationBody, request_id: str, received_s: float
    ) -> tuple[list[SequenceStream], asyncio.Event]:
        """Tokenise in a thread and give every prompt to the engine. Raises ApiError, and leaves nothing there then."""
        tokenizer, facts = self.check_ready()
        prompts = await asyncio.to_thread(encode_prompts, tokenizer, body, facts.context_len)
        wake = asyncio.Event()
        streams: list[SequenceStream] = []
        try:
            for i, prompt in enumerate(prompts):
                name = request_id if len(prompts) == 1 else f"{request_id}-{i}"
                detokenizer = Detokenizer(tokenizer.token_bytes, body.stop, body.min_tokens)
                stream = SequenceStream(name, prompt, detokenizer, wake, received_s, prompt_field(body))
                max_tokens = max_tokens_of(body, len(prompt), facts.context_len)
                params = body.sampling_params(max_tokens, self.stop_token_ids)
                self.engine.submit(stream, params, body.priority)
                streams.append(stream)
        except BaseException:
            self.close_streams(streams)
            raise
        return streams, wake

    def close_streams(self, streams: list[SequenceStream]) -> None:
        """Whatever has not finished is aborted: its blocks are free before the engine's next step."""
        for stream in streams:
            self.engine.release(stream)


def encode_prompts(tokenizer: Tokenizer, body: GenerationBody, context_len: int) -> list[tuple[int, ...]]:
    """Token ids per prompt. Raises ApiError for an empty prompt, an id outside the vocabulary, a chat that the
    model's template refuses, and a text that can't fit the context: that one is not tokenised at all."""
    try:
        prompts = [tuple(ids) for ids in _encode(tokenizer, body, context_len * tokenizer.longest_token_bytes)]
    except TextError as error:
        raise bad_field(prompt_field(body), str(error), code="invalid_value") from error
    if not all(prompts):
        raise bad_field(prompt_field(body), "is empty; allowed: at least one token", code="invalid_value")
    if (highest := max(map(max, prompts))) >= tokenizer.vocab_size:
        allowed = f"0 to {tokenizer.vocab_size - 1}"
        raise bad_field("prompt", f"there is no token {highest}; allowed: {allowed}", code="invalid_value")
    return prompts


def _encode(tokenizer: Tokenizer, body: GenerationBody, most_bytes: int) -> Iterator[Sequence[int]]:
    if isinstance(body, ChatBody):
        text = tokenizer.apply_chat_template(body.template_messages())
        _check_length(text, most_bytes, "messages")
        yield tokenizer.encode(text, add_special=False)
    elif isinstance(body, CompletionBody):
        for prompt in body.prompt:
            if isinstance(prompt, str):
                _check_length(prompt, most_bytes, "prompt")
            yield tokenizer.encode(prompt) if isinstance(prompt, str) else prompt


def _check_length(text: str, most_bytes: int, field: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        message = f"has {size} bytes; no text of more than {most_bytes} fits the model's context"
        raise bad_field(field, message, code="context_length_exceeded")


def prompt_field(body: GenerationBody) -> str:
    return "messages" if isinstance(body, ChatBody) else "prompt"


def max_tokens_of(body: GenerationBody, prompt_len: int, context_len: int) -> int:
    """OpenAI's defaults: 16 for a completion, whatever the context still holds for a chat."""
    if isinstance(body, ChatBody):
        given = body.max_completion_tokens or body.max_tokens
        return given or max(context_len - prompt_len, 1)
    return body.max_tokens or 16


def new_request_id() -> str:
    return secrets.token_hex(12)
