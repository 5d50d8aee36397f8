"""From the body of a request to its sequences: prompts, parameters, and a stream for each. Submits nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from runners.runtime.sequence import SamplingParams
from runners.runtime.serving.detokenize import Detokenizer
from runners.runtime.serving.loaded import Loaded
from runners.runtime.serving.prompts import EncodedPrompt
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.protocol.completions import DEFAULT_MAX_TOKENS, CompletionBody
from runners.runtime.serving.protocol.embeddings import EmbeddingBody
from runners.runtime.serving.protocol.generation import GenerationBody
from runners.runtime.serving.sequence_stream import SequenceStream, StopTokens


@dataclass(frozen=True, slots=True)
class Job:
    """The sequences of one HTTP request: `per_prompt` of them for each prompt, prompt by prompt, each with its
    parameters."""

    request_id: str
    received_s: float
    prompts: list[EncodedPrompt]
    params: list[SamplingParams]
    per_prompt: int = 1
    streams: list[SequenceStream] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def prompt_of(self, index: int) -> EncodedPrompt:
        return self.prompts[index // self.per_prompt]

    def name_of(self, index: int) -> str:
        return self.request_id if len(self.params) == 1 else f"{self.request_id}-{index}"


def generation_job(loaded: Loaded, body: CompletionBody | ChatBody, request_id: str, received_s: float) -> Job:
    """Tokenises; for a thread. Raises ApiError 400."""
    encoder = loaded.prompts
    prompts = encoder.of_chat(body) if isinstance(body, ChatBody) else encoder.of_completion(body)
    banned = encoder.bad_token_ids(body.bad_words)
    shared = body.sampling_params(1, loaded.tokenizer.eos_ids, banned)  # once, as a structure's text may be long
    most = [max_tokens_of(body, len(prompt.ids), loaded.facts.context_len) for prompt in prompts]
    params = [replace(shared, max_tokens=each, seed=body.seed_of(i)) for each in most for i in range(body.n)]
    return Job(request_id, received_s, prompts, params, body.n)


def embedding_job(loaded: Loaded, body: EmbeddingBody, request_id: str, received_s: float) -> Job:
    """Tokenises; for a thread. Raises ApiError 400."""
    prompts = loaded.prompts.of_texts(body.input, "input", add_special=body.add_special_tokens)
    return Job(request_id, received_s, prompts, [body.sampling_params()] * len(prompts))


def generation_stream(loaded: Loaded, body: GenerationBody, job: Job, index: int) -> SequenceStream:
    prompt, shown = job.prompt_of(index), shown_bytes(loaded, body)
    return SequenceStream(
        job.name_of(index),
        prompt.ids,
        Detokenizer(shown, body.stop, body.min_tokens, include_stop=body.include_stop_str_in_output),
        job.wake,
        job.received_s,
        prompt_field="messages" if isinstance(body, ChatBody) else "prompt",
        stop_tokens=stop_tokens_of(body, loaded.tokenizer.eos_ids),
        chat=loaded.format.output(body, prompt.text) if isinstance(body, ChatBody) else None,
    )


def embedding_stream(loaded: Loaded, job: Job, index: int) -> SequenceStream:
    """Never a token comes to it."""
    detokenizer = Detokenizer(loaded.tokenizer.token_bytes)
    prompt = job.prompt_of(index)
    return SequenceStream(job.name_of(index), prompt.ids, detokenizer, job.wake, job.received_s, prompt_field="input")


def max_tokens_of(body: GenerationBody, prompt_len: int, context_len: int) -> int:
    """OpenAI's defaults: 16 for a completion, whatever the context still holds for a chat."""
    if isinstance(body, ChatBody):
        given = body.max_completion_tokens or body.max_tokens
        return given or max(context_len - prompt_len, 1)
    return DEFAULT_MAX_TOKENS if body.max_tokens is None else max(body.max_tokens, 1)


def shown_bytes(loaded: Loaded, body: GenerationBody) -> Callable[[int], bytes]:
    """The bytes that a token adds to an answer. Control tokens add none, unless the client wants them, or a chat's
    parsers must see them."""
    marks = loaded.format.mark_bytes if isinstance(body, ChatBody) else {}
    bytes_of = partial(loaded.tokenizer.token_bytes, skip_special=body.skip_special_tokens)
    return lambda token_id: marks[token_id] if token_id in marks else bytes_of(token_id)


def stop_tokens_of(body: GenerationBody, eos_ids: tuple[int, ...]) -> StopTokens:
    asked = frozenset(body.stop_token_ids)
    return StopTokens(asked, frozenset() if body.include_stop_str_in_output else asked | frozenset(eos_ids))
