"""What /v1/completions and /v1/chat/completions share: how tokens are drawn, when they end, how many answers."""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from runners.runtime.sequence import SamplingParams, Structure
from runners.runtime.serving.errors import bad_field
from runners.runtime.serving.protocol.body import INT64_MAX, RequestBody
from runners.runtime.serving.protocol.fields import strings_of, token_ids_of
from runners.runtime.serving.protocol.structured import (
    GuidedChoice,
    GuidedGrammar,
    GuidedJson,
    GuidedJsonObject,
    GuidedRegex,
    ResponseFormat,
    StructuredOutputs,
)

MAX_N = 128
MAX_STOP_STRINGS, MAX_STOP_CHARS = 16, 1000
MAX_STOP_TOKEN_IDS = 128
MAX_BAD_WORDS, MAX_BAD_WORD_CHARS = 64, 100
MAX_LOGIT_BIAS = 300
MAX_LOGPROBS = 20
STRUCTURE_FIELDS = (
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_json_object",
)
TOKEN_ID = re.compile(r"[0-9]{1,10}")


def _stop_strings(value: object) -> object:
    return strings_of([value] if isinstance(value, str) else value, MAX_STOP_STRINGS, MAX_STOP_CHARS)


def _stop_token_ids(value: object) -> object:
    return token_ids_of(value, MAX_STOP_TOKEN_IDS)


def _bad_words(value: object) -> object:
    return strings_of(value, MAX_BAD_WORDS, MAX_BAD_WORD_CHARS)


def _top_k(value: object) -> object:
    return 0 if type(value) is int and value == -1 else value


def _logit_bias(value: object) -> object:
    """Token ids, as the strings that JSON's keys are, with what is added to the logit of each."""
    if not isinstance(value, dict):
        raise ValueError('must be an object such as {"50256": -100}')
    if len(value) > MAX_LOGIT_BIAS:
        raise ValueError(f"holds {len(value)} tokens; at most {MAX_LOGIT_BIAS} are allowed")
    for key, bias in value.items():
        if not TOKEN_ID.fullmatch(key):
            raise ValueError(f"each key must be a token id (got {key[:40]!r})")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:
            raise ValueError(f"each bias must be a number from -100 to 100 (got {repr(bias)[:40]} for token {key})")
    return tuple(sorted({int(key): float(bias) for key, bias in value.items()}.items()))


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    include_usage: bool = False


class GenerationBody(RequestBody):
    """The defaults are OpenAI's; `top_k` 0 or -1 keeps all tokens. Of a request with a seed, answer i is drawn with
    `seed + i`, so that it is what a request for one answer with that seed gives."""

    REFUSED: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "best_of": (1,),
        "use_beam_search": (False,),
        "length_penalty": (1,),
        "allowed_token_ids": (),
        "logits_processors": ([],),
        "truncate_prompt_tokens": (),
        "prompt_embeds": (),
        "guided_whitespace_pattern": (),
        "chat_template": (),
    }

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = Field(default=1, ge=1, le=MAX_N)
    max_tokens: int | None = Field(default=None, ge=1, le=INT64_MAX)
    min_tokens: int = Field(default=0, ge=0, le=INT64_MAX)
    temperature: float = Field(default=1.0, ge=0.0, le=2.0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, allow_inf_nan=False)
    top_k: Annotated[int, BeforeValidator(_top_k)] = Field(default=0, ge=0, le=INT64_MAX)
    min_p: float = Field(default=0.0, ge=0.0, le=1.0, allow_inf_nan=False)
    repetition_penalty: float = Field(default=1.0, gt=0.0, le=100.0, allow_inf_nan=False)
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0, allow_inf_nan=False)
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0, allow_inf_nan=False)
    logit_bias: Annotated[tuple[tuple[int, float], ...], BeforeValidator(_logit_bias)] = ()
    bad_words: Annotated[tuple[str, ...], BeforeValidator(_bad_words)] = ()
    seed: int | None = Field(default=None, ge=-INT64_MAX, le=INT64_MAX)
    stop: Annotated[tuple[str, ...], BeforeValidator(_stop_strings)] = ()
    stop_token_ids: Annotated[tuple[int, ...], BeforeValidator(_stop_token_ids)] = ()
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    ignore_eos: bool = False
    prompt_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    response_format: ResponseFormat = None
    structured_outputs: StructuredOutputs = None
    guided_json: GuidedJson = None
    guided_regex: GuidedRegex = None
    guided_choice: GuidedChoice = None
    guided_grammar: GuidedGrammar = None
    guided_json_object: GuidedJsonObject = None
    priority: int = Field(default=0, ge=-1000, le=1000)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    @abstractmethod
    def num_logprobs(self) -> int | None:
        """How many of the most likely tokens are wanted beside each chosen one; null for no logprobs at all."""

    @property
    def num_prompt_logprobs(self) -> int | None:
        return self.prompt_logprobs

    @property
    def has_structure(self) -> bool:
        return any(getattr(self, name) is not None for name in STRUCTURE_FIELDS)

    @property
    def structure(self) -> Structure | None:
        """What the output must match; it knows the field that asks for it, as the client called it."""
        for name in STRUCTURE_FIELDS:
            structure: Structure | None = getattr(self, name)
            if structure is not None:
                return replace(structure, field=name)
        return None

    def check(self) -> None:
        if self.stream_options is not None and not self.stream:
            raise bad_field("stream_options", "is allowed only with stream: true")
        if self.prompt_logprobs is not None and self.stream:
            raise bad_field("prompt_logprobs", "is allowed only without stream: true")
        if len(given := [name for name in STRUCTURE_FIELDS if getattr(self, name) is not None]) > 1:
            raise bad_field(given[1], f"is not allowed beside {given[0]}; allowed: one of them")

    def seed_of(self, index: int) -> int:
        """The seed of answer `index`. A request without one draws one each, so that the engine always has it."""
        return secrets.randbits(63) if self.seed is None else (self.seed + index) & INT64_MAX

    def sampling_params(
        self, max_tokens: int, eos_ids: tuple[int, ...], bad_token_ids: tuple[tuple[int, ...], ...] = ()
    ) -> SamplingParams:
        """For the first answer. `ignore_eos` passes over the model's own end tokens alone, as vLLM has it, never over
        the client's `stop_token_ids`."""
        ends = self.stop_token_ids if self.ignore_eos else (*self.stop_token_ids, *eos_ids)
        return SamplingParams(
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed_of(0),
            ignore_eos=self.ignore_eos and not self.stop_token_ids,
            stop_token_ids=tuple(dict.fromkeys(ends)),
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=self.logit_bias,
            bad_token_ids=bad_token_ids,
            logprobs=self.num_logprobs,
            prompt_logprobs=self.num_prompt_logprobs,
            structure=self.structure,
        )
