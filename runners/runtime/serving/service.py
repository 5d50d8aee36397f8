"""What the HTTP handlers serve from: the model's name, its tokenizer, its engine, and whether all of that is up."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from runners.runtime.sequence import SamplingParams
from runners.runtime.serving.chat_format import ChatFormat
from runners.runtime.serving.chat_output import ChatOutput
from runners.runtime.serving.detokenize import Detokenizer
from runners.runtime.serving.engine_client import EngineClient
from runners.runtime.serving.errors import ApiError, bad_field, unavailable
from runners.runtime.serving.messages import Ready
from runners.runtime.serving.metrics import ServerMetrics
from runners.runtime.serving.prompts import EncodedPrompt, PromptEncoder
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.protocol.completions import DEFAULT_MAX_TOKENS, CompletionBody
from runners.runtime.serving.protocol.embeddings import EmbeddingBody
from runners.runtime.serving.protocol.generation import GenerationBody
from runners.runtime.serving.sequence_stream import SequenceStream, StopTokens
from runners.runtime.serving.steps import StepRing
from runners.runtime.tokenizer import Tokenizer

ENGINE_LOADS = "the engine loads"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is there once the model is."""

    tokenizer: Tokenizer
    facts: Ready
    format: ChatFormat

    @property
    def prompts(self) -> PromptEncoder:
        return PromptEncoder(self.tokenizer, self.facts.context_len, self.format.template_takes_tools)


@dataclass(frozen=True, slots=True)
class Job:
    """The sequences of one HTTP request: `per_prompt` of them for each prompt, prompt by prompt."""

    prompts: list[EncodedPrompt]
    per_prompt: int = 1
    streams: list[SequenceStream] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def prompt_of(self, index: int) -> EncodedPrompt:
        return self.prompts[index // self.per_prompt]


@dataclass
class Service:
    """Loading → ready → draining, or failed. `phase` says it in words for /health. `keep_alive_s` is how long a stream
    may be silent; 0 for any time."""

    model: str
    engine: EngineClient
    metrics: ServerMetrics
    steps: StepRing
    phase: str = "starting"
    draining: bool = False
    drain_s: float = 0.0
    keep_alive_s: float = 0.0
    loaded: Loaded | None = None
    created_s: int = 0

    @property
    def ready(self) -> bool:
        return self.loaded is not None and self.engine.alive and not self.draining

    @property
    def current_phase(self) -> str:
        """The phase for people: while the engine loads, in its own words."""
        return self.engine.phase if self.phase == ENGINE_LOADS else self.phase

    def check_ready(self) -> Loaded:
        if self.draining:
            retry_after_s = max(1, round(self.drain_s))
            raise unavailable("the server is shutting down", "shutting_down", retry_after_s=retry_after_s)
        if self.engine.ended.done():
            raise unavailable(f"the engine has ended: {self.engine.ended.result()}", "engine_unavailable")
        if self.loaded is None or not self.engine.alive:
            raise unavailable(f"the model is not ready yet: {self.current_phase}", "loading", retry_after_s=1)
        return self.loaded

    def check_model(self, name: str | None) -> None:
        if name is not None and name != self.model:
            raise ApiError(
                404,
                f"the model {name[:80]!r} is not served here; served: {self.model!r}",
                param="model",
                code="model_not_found",
            )

    async def open_generation(self, body: GenerationBody, request_id: str, received_s: float) -> Job:
        """Tokenise in a thread and give every sequence to the engine. Raises ApiError, having left nothing there."""
        loaded = self.check_ready()
        job, params = await asyncio.to_thread(prepare_generation, loaded, body)
        self._check_room(len(params), "n" if body.n > 1 else "prompt")
        self.metrics.asked(body.n, [param.max_tokens for param in params])
        show = shown_bytes(loaded, body)
        stop_tokens = stop_tokens_of(body, loaded.tokenizer.eos_ids)
        try:
            for index, param in enumerate(params):
                prompt = job.prompt_of(index)
                stream = SequenceStream(
                    name_of(request_id, index, len(params)),
                    prompt.ids,
                    Detokenizer(show, body.stop, body.min_tokens, include_stop=body.include_stop_str_in_output),
                    job.wake,
                    received_s,
                    "messages" if isinstance(body, ChatBody) else "prompt",
                    stop_tokens,
                    chat_output(loaded, body, prompt),
                )
                self.engine.submit(stream, param, body.priority)
                job.streams.append(stream)
        except BaseException:
            self.close(job)
            raise
        return job

    async def open_embedding(self, body: EmbeddingBody, request_id: str, received_s: float) -> Job:
        """As `open_generation`, for the hidden states of texts."""
        loaded = self.check_ready()
        prompts = await asyncio.to_thread(
            loaded.prompts.of_texts, body.input, "input", add_special=body.add_special_tokens
        )
        self._check_room(len(prompts), "input")
        job = Job(prompts)
        try:
            for index, prompt in enumerate(prompts):
                name = name_of(request_id, index, len(prompts))
                silent = Detokenizer(loaded.tokenizer.token_bytes)
                stream = SequenceStream(name, prompt.ids, silent, job.wake, received_s, "input")
                self.engine.submit(stream, body.sampling_params(), body.priority)
                job.streams.append(stream)
        except BaseException:
            self.close(job)
            raise
        return job

    def close(self, job: Job) -> None:
        """Whatever has not finished is aborted: its blocks are free before the engine's next step."""
        for stream in job.streams:
            self.engine.release(stream)

    def _check_room(self, num_sequences: int, param: str) -> None:
        """A request for more sequences than ever fit would otherwise be told to come back."""
        if num_sequences > self.engine.max_in_flight:
            most = self.engine.max_in_flight
            raise bad_field(param, f"asks for {num_sequences} sequences; this server takes {most}", "invalid_value")


def prepare_generation(loaded: Loaded, body: GenerationBody) -> tuple[Job, list[SamplingParams]]:
    """Raises ApiError 400."""
    encoder = loaded.prompts
    if isinstance(body, ChatBody):
        prompts = encoder.of_chat(body)
    else:
        assert isinstance(body, CompletionBody)
        prompts = encoder.of_completion(body)
    banned = encoder.bad_token_ids(body.bad_words)
    shared = body.sampling_params(1, loaded.tokenizer.eos_ids, banned)  # once, as a structure's text may be long
    most = [max_tokens_of(body, len(prompt.ids), loaded.facts.context_len) for prompt in prompts]
    params = [replace(shared, max_tokens=each, seed=body.seed_of(i)) for each in most for i in range(body.n)]
    return Job(prompts, body.n), params


def max_tokens_of(body: GenerationBody, prompt_len: int, context_len: int) -> int:
    """OpenAI's defaults: 16 for a completion, whatever the context still holds for a chat."""
    if isinstance(body, ChatBody):
        given = body.max_completion_tokens or body.max_tokens
        return given or max(context_len - prompt_len, 1)
    return DEFAULT_MAX_TOKENS if body.max_tokens is None else max(body.max_tokens, 1)


def chat_output(loaded: Loaded, body: GenerationBody, prompt: EncodedPrompt) -> ChatOutput | None:
    return loaded.format.output(body, prompt.text) if isinstance(body, ChatBody) else None


def shown_bytes(loaded: Loaded, body: GenerationBody) -> Callable[[int], bytes]:
    """The bytes that a token adds to an answer. Control tokens add none, unless the client wants them, or a chat's
    parsers must see them."""
    marks = loaded.format.mark_bytes if isinstance(body, ChatBody) else {}
    bytes_of = partial(loaded.tokenizer.token_bytes, skip_special=body.skip_special_tokens)
    return lambda token_id: marks[token_id] if token_id in marks else bytes_of(token_id)


def stop_tokens_of(body: GenerationBody, eos_ids: Sequence[int]) -> StopTokens:
    asked = frozenset(body.stop_token_ids)
    return StopTokens(asked, frozenset() if body.include_stop_str_in_output else asked | frozenset(eos_ids))


def name_of(request_id: str, index: int, count: int) -> str:
    return request_id if count == 1 else f"{request_id}-{index}"


def new_request_id() -> str:
    return secrets.token_hex(12)
