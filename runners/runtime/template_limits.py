"""What a chat template may use up while it renders: steps, seconds, characters and items.

The bounds are far above what any chat needs. Checks alone; where they are made is template_sandbox.py's and
template_filters.py's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from jinja2.exceptions import SecurityError

MAX_STEPS = 200_000
"""Loop rounds and calls of one rendering, together."""

MAX_CHARS = 1 << 24
"""The longest text that a template may build, the result included."""

MAX_CHARS_IN_ALL = 1 << 28
"""The sum of all texts that a rendering builds on its way."""

MAX_ITEMS = 200_000
"""The longest list, and the most values of a nested one, that a template may handle."""

MAX_SECONDS = 10.0
"""A last resort for steps that are slow; a chat takes milliseconds."""


class TemplateLimitError(SecurityError):
    """A template that builds or runs more than is allowed."""


@dataclass(slots=True)
class _Budget:
    steps: int
    chars: int
    deadline_s: float


_budget: ContextVar[_Budget | None] = ContextVar("template_budget", default=None)


@contextmanager
def bounded_rendering() -> Iterator[None]:
    """Give what is rendered inside its own budget. Outside of one, sizes alone are checked."""
    token = _budget.set(_Budget(MAX_STEPS, MAX_CHARS_IN_ALL, time.monotonic() + MAX_SECONDS))
    try:
        yield
    finally:
        _budget.reset(token)


def spend_step() -> None:
    """Count a loop round or a call. Raises TemplateLimitError when too many, or too slow."""
    budget = _budget.get()
    if budget is None:
        return
    budget.steps -= 1
    if budget.steps < 0:
        raise TemplateLimitError(f"more than {MAX_STEPS} steps")
    if time.monotonic() > budget.deadline_s:
        raise TemplateLimitError(f"more than {MAX_SECONDS:g} seconds")


def spend_chars(value: Any) -> Any:
    """The value itself; a text's characters are counted. Raises TemplateLimitError."""
    budget = _budget.get()
    if budget is not None and isinstance(value, str):
        budget.chars -= len(value)
        if budget.chars < 0:
            raise TemplateLimitError(f"texts of more than {MAX_CHARS_IN_ALL} characters in all")
    return value


def check_size(size: int, most: int = MAX_CHARS) -> None:
    """Raises TemplateLimitError for a size above `most`."""
    if size > most:
        raise TemplateLimitError(f"a value of size {size}; at most {most}")


def weighed(value: Any) -> Any:
    """The value itself, if its text would be of bearable size: a list that holds the same one twice, which holds the
    same one twice, and so on, is not. Raises TemplateLimitError."""
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return value
    num_values, num_chars, rest = 0, 0, [value]
    while rest:
        item = rest.pop()
        num_values += 1
        if isinstance(item, str):
            num_chars += len(item)
        elif isinstance(item, Mapping):
            rest += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            rest += item
        check_size(num_values + len(rest), MAX_ITEMS)
        check_size(num_chars)
    return value


def bounded_concat(parts: Iterable[str]) -> str:
    """The parts as one text. Raises TemplateLimitError before it grows too long."""
    kept, size = [], 0
    for part in parts:
        size += len(part)
        check_size(size)
        kept.append(part)
    return "".join(kept)
