"""Field types that several endpoints share: prompts, texts, lists of ids."""

from __future__ import annotations

from typing import Annotated, Any, TypeGuard

from pydantic import BeforeValidator

Prompt = str | tuple[int, ...]


def is_token_list(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def prompts_of(value: object, most: int) -> tuple[Prompt, ...]:
    """A string, a list of strings, token ids, or a list of token id lists → a tuple of at most `most` prompts."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value:
        if is_token_list(value):
            return (tuple(value),)
        if len(value) > most:
            raise ValueError(f"holds {len(value)} prompts; at most {most} are allowed")
        if all(isinstance(item, str) for item in value):
            return tuple(value)
        if all(is_token_list(item) for item in value):
            return tuple(tuple(item) for item in value)
    raise ValueError("must be a string, a list of strings, a list of token ids, or a list of token id lists")


def strings_of(value: object, most: int, most_chars: int) -> tuple[str, ...]:
    """A list of at most `most` strings of 1 to `most_chars` characters."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    if len(value) > most:
        raise ValueError(f"holds {len(value)} strings; at most {most} are allowed")
    if not all(1 <= len(item) <= most_chars for item in value):
        raise ValueError(f"each string must have 1 to {most_chars} characters")
    return tuple(value)


def token_ids_of(value: object, most: int) -> tuple[int, ...]:
    if not is_token_list(value):
        raise ValueError("must be a list of token ids")
    if len(value) > most:
        raise ValueError(f"holds {len(value)} token ids; at most {most} are allowed")
    return tuple(value)


def _text(value: object) -> Any:
    """Message content: a string, or a list of text parts."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError('must be a string or a list of {"type": "text", "text": …} parts')
    for part in value:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ValueError('only {"type": "text", "text": …} parts are supported')
    return "".join(part["text"] for part in value)


Text = Annotated[str | None, BeforeValidator(_text)]
