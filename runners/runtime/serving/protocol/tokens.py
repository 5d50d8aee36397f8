"""The bodies of /tokenize and /detokenize, in vLLM's shapes. `model` may be left out."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from runners.runtime.serving.protocol.body import RequestBody, read_json
from runners.runtime.serving.protocol.chat import ChatTextFields
from runners.runtime.serving.protocol.fields import token_ids_of

MAX_TOKEN_IDS = 4_000_000


def _token_ids(value: object) -> object:
    return token_ids_of(value, MAX_TOKEN_IDS)


class TokenizeBody(RequestBody):
    """A plain text."""

    model: str | None = None
    prompt: str
    add_special_tokens: bool = True
    return_token_strs: bool = False


class TokenizeChatBody(ChatTextFields, RequestBody):
    """A chat, through the model's template."""

    model: str | None = None
    return_token_strs: bool = False

    def check(self) -> None:
        super().check()
        self.check_text()


class DetokenizeBody(RequestBody):
    FLAT: ClassVar[frozenset[str]] = frozenset({"tokens"})

    model: str | None = None
    tokens: Annotated[tuple[int, ...], BeforeValidator(_token_ids)]


def asks_for_chat(raw: bytes) -> bool:
    """Whether a body of /tokenize has `messages`. Raises ApiError 400 for what is no JSON object."""
    return "messages" in read_json(raw)
