"""The body of /v1/completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from runners.runtime.serving.errors import bad_field
from runners.runtime.serving.protocol.body import INT64_MAX
from runners.runtime.serving.protocol.fields import Prompt, prompts_of
from runners.runtime.serving.protocol.generation import MAX_LOGPROBS, GenerationBody

MAX_PROMPTS = 128
DEFAULT_MAX_TOKENS = 16


def _prompts(value: object) -> object:
    return prompts_of(value, MAX_PROMPTS)


class CompletionBody(GenerationBody):
    """`max_tokens` 0 is for scoring a prompt: it is allowed with `echo` or `prompt_logprobs`. With `return_token_ids`
    each choice has the ids of its new tokens."""

    FLAT: ClassVar[frozenset[str]] = frozenset({"prompt"})
    REFUSED: ClassVar[Mapping[str, tuple[object, ...]]] = {
        **GenerationBody.REFUSED,
        "suffix": ("",),
        "tools": ([],),
        "tool_choice": ("none", "auto"),
    }

    prompt: Annotated[tuple[Prompt, ...], BeforeValidator(_prompts)]
    max_tokens: int | None = Field(default=None, ge=0, le=INT64_MAX)
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    echo: bool = False
    add_special_tokens: bool = True
    return_token_ids: bool = False

    @property
    def num_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def num_prompt_logprobs(self) -> int | None:
        """An echoed prompt has the logprobs that its answer has."""
        asked = [count for count in (self.prompt_logprobs, self.logprobs if self.echo else None) if count is not None]
        return max(asked, default=None)

    @property
    def prompt_only(self) -> bool:
        """No output is wanted; the engine makes one token all the same, and it is dropped."""
        return self.max_tokens == 0

    def check(self) -> None:
        super().check()
        if self.prompt_only and not self.echo and self.prompt_logprobs is None:
            raise bad_field("max_tokens", "0 is allowed only with echo or prompt_logprobs", code="invalid_value")
        if self.prompt_only and self.min_tokens:
            raise bad_field("min_tokens", "must be at most max_tokens (0)", code="invalid_value")
