"""The body of /v1/embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from runners.runtime.sequence import SamplingParams
from runners.runtime.serving.protocol.body import RequestBody
from runners.runtime.serving.protocol.fields import Prompt, prompts_of

MAX_INPUTS = 2048


def _inputs(value: object) -> object:
    return prompts_of(value, MAX_INPUTS)


class EmbeddingBody(RequestBody):
    """`base64` is the little-endian float32 of the vector, as OpenAI's clients read it."""

    FLAT: ClassVar[frozenset[str]] = frozenset({"input"})
    REFUSED: ClassVar[Mapping[str, tuple[object, ...]]] = {"truncate_prompt_tokens": (), "messages": ()}

    model: str
    input: Annotated[tuple[Prompt, ...], BeforeValidator(_inputs)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1, le=2**31)
    add_special_tokens: bool = True
    priority: int = Field(default=0, ge=-1000, le=1000)

    def sampling_params(self) -> SamplingParams:
        return SamplingParams(max_tokens=1, embed=True)
