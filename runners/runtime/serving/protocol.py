"""Request bodies of /v1/completions and /v1/chat/completions: what is taken, what is refused, what is
ignored.

Null means "not given". A field that would change the answer and that the server does not have is refused by
name; an unknown one is ignored and logged once. Lengths against the model's context are the API's business,
not ours.
"""

from __future__ import annotations

import json
import logging
import secrets
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from runners.runtime.sequence import SamplingParams
from runners.runtime.serving.errors import ApiError, bad_field, not_yet_supported

MAX_STOP_STRINGS = 4
MAX_STOP_CHARS = 1000
MAX_PROMPTS = 128
MAX_MESSAGES = 4096
INT64_MAX = 2**63 - 1

# Fields that would change the answer: values that ask for nothing are let through, all others are refused.
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (),
    "echo": (False,),
    "suffix": ("",),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "use_beam_search": (False,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
}
# Fields that never change the tokens: ignored without a word.
HARMLESS = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "parallel_tool_calls",
        "safety_identifier",
        "prompt_cache_key",
    }
)

log = logging.getLogger(__name__)
_warned: set[str] = set()


def _stop_strings(value: object) -> object:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise ValueError("must be a string or a list of strings")
    if len(stops) > MAX_STOP_STRINGS:
        raise ValueError(f"holds {len(stops)} strings; at most {MAX_STOP_STRINGS} are allowed")
    if not all(1 <= len(stop) <= MAX_STOP_CHARS for stop in stops):
        raise ValueError(f"each string must have 1 to {MAX_STOP_CHARS} characters")
    return tuple(stops)


def _is_token_list(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _prompts(value: object) -> object:
    """A string, a list of strings, token ids, or a list of token id lists → a tuple of prompts."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value:
        if _is_token_list(value):
            return (tuple(value),)
        if len(value) > MAX_PROMPTS:
            raise ValueError(f"holds {len(value)} prompts; at most {MAX_PROMPTS} are allowed")
        if all(isinstance(item, str) for item in value):
            return tuple(value)
        if all(_is_token_list(item) for item in value):
            return tuple(tuple(item) for item in value)
    raise ValueError("must be a string, a list of strings, a list of token ids, or a list of token id lists")


def _top_k(value: object) -> object:
    return 0 if type(value) is int and value == -1 else value


def _text(value: object) -> object:
    """Message content: a string, or a list of text parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError('must be a string or a list of {"type": "text", "text": …} parts')
    for part in value:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ValueError('only {"type": "text", "text": …} parts are supported')
    return "".join(part["text"] for part in value)


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    include_usage: bool = False


class Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_text)]

    def for_template(self) -> dict[str, str]:
        """Chat templates know no `developer`; OpenAI treats it as `system`."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.content}


class GenerationBody(BaseModel):
    """What both endpoints share. The defaults are OpenAI's; `top_k` 0 or -1 keeps all tokens."""

    model_config = ConfigDict(strict=True, extra="allow")
    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=INT64_MAX)
    min_tokens: int = Field(default=0, ge=0, le=INT64_MAX)
    temperature: float = Field(default=1.0, ge=0.0, le=2.0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, allow_inf_nan=False)
    top_k: Annotated[int, BeforeValidator(_top_k)] = Field(default=0, ge=0, le=INT64_MAX)
    seed: int | None = Field(default=None, ge=-INT64_MAX, le=INT64_MAX)
    stop: Annotated[tuple[str, ...], BeforeValidator(_stop_strings)] = ()
    ignore_eos: bool = False
    priority: int = Field(default=0, ge=-1000, le=1000)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling_params(self, max_tokens: int, stop_token_ids: tuple[int, ...]) -> SamplingParams:
        """For one sequence. A request without a seed draws one, so that the engine always has it."""
        return SamplingParams(
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=secrets.randbits(63) if self.seed is None else self.seed & INT64_MAX,
            ignore_eos=self.ignore_eos,
            stop_token_ids=stop_token_ids,
        )


class CompletionBody(GenerationBody):
    prompt: Annotated[tuple[str | tuple[int, ...], ...], BeforeValidator(_prompts)]


class ChatBody(GenerationBody):
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=INT64_MAX)


Body = TypeVar("Body", bound=GenerationBody)


def read_json(raw: bytes) -> dict[str, Any]:
    """The body as an object, with nulls dropped. Raises ApiError 400."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON in UTF-8: {error}", code="invalid_json") from error
    if not isinstance(value, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    return {key: item for key, item in value.items() if item is not None}


def parse(kind: type[Body], raw: bytes) -> Body:
    """The body as `kind`. Raises ApiError 400 that names the field, and what is allowed."""
    fields = read_json(raw)
    for name, inert in UNSUPPORTED.items():
        if name in fields and not any(_same(fields[name], value) for value in inert):
            allowed = " or ".join(json.dumps(value) for value in (*inert, None))
            raise not_yet_supported(name, fields[name], allowed)
    try:
        body = kind.model_validate(fields)
    except ValidationError as error:
        raise _first_error(error) from error
    _check_text(body)
    if body.stream_options is not None and not body.stream:
        raise bad_field("stream_options", "is allowed only with stream: true")
    _warn_of_unknown(body)
    return body


def _same(given: object, inert: object) -> bool:
    """Equal, with 1 and 1.0 alike but `true` never a 1."""
    return isinstance(given, bool) == isinstance(inert, bool) and given == inert


def _first_error(error: ValidationError) -> ApiError:
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return bad_field(param, "is required", code="missing_required_parameter")
    message = first["msg"].removeprefix("Value error, ")
    return bad_field(param, f"{message} (got {repr(first['input'])[:80]})", code="invalid_value")


def _check_text(body: GenerationBody) -> None:
    """JSON can spell lone surrogates; no tokenizer can."""
    texts: dict[str, str] = {f"stop.{i}": stop for i, stop in enumerate(body.stop)}
    if isinstance(body, CompletionBody):
        texts |= {f"prompt.{i}": text for i, text in enumerate(body.prompt) if isinstance(text, str)}
    if isinstance(body, ChatBody):
        texts |= {f"messages.{i}.content": message.content for i, message in enumerate(body.messages)}
    for param, text in texts.items():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise bad_field(param, f"holds text that is not Unicode: {error.reason}") from error


def _warn_of_unknown(body: GenerationBody) -> None:
    unknown = set(body.model_extra or ()) - HARMLESS - UNSUPPORTED.keys() - _warned
    for name in sorted(unknown)[: 1000 - len(_warned)]:
        _warned.add(name)
        log.warning("the field %r of a request is unknown here and is ignored (said once)", name[:80])
