"""A question with a checked answer: what a model is asked, and whether what it said is right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Check = Callable[[str], bool]
"""Takes any text and never raises."""


@dataclass(frozen=True, slots=True)
class Question:
    """`check` says whether an answer is right; `expected` is what it is held against, as a person reads it."""

    task: str
    number: int
    prompt: str
    expected: str
    max_tokens: int
    check: Check


def question_stream(task: str, seed: int, number: int) -> random.Random:
    """The randomness of one question: it depends on these three alone."""
    return random.Random(f"{task} {seed} {number}")
