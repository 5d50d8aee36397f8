"""Sums, differences and products of whole numbers. Right is an answer whose last number is the result, exactly."""

from __future__ import annotations

import re

from runners.quality.tasks.question import Question, question_stream

MAX_TOKENS = 24
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def arithmetic_question(seed: int, number: int) -> Question:
    stream = question_stream("arithmetic", seed, number)
    sign = stream.choice("+-×")
    most = 12 if sign == "×" else 99
    left, right = stream.randint(2, most), stream.randint(2, most)
    result = {"+": left + right, "-": left - right, "×": left * right}[sign]
    return Question(
        task="arithmetic",
        number=number,
        prompt=f"What is {left} {sign} {right}? Answer with the number alone.",
        expected=str(result),
        max_tokens=MAX_TOKENS,
        check=lambda answer: last_number(answer) == str(result),
    )


def last_number(answer: str) -> str | None:
    """The last number in a text, without separators and leading zeros; None where it has none."""
    found = _NUMBER.findall(answer.replace("\N{MINUS SIGN}", "-"))
    if not found:
        return None
    text = found[-1].replace(",", "")
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = whole.lstrip("0") or "0"
    # `3.0` is the number 3; `3.5` is no whole number and stays apart from any.
    digits += f".{fraction}" if fraction.strip("0") else ""
    return f"-{digits}" if text.startswith("-") and digits != "0" else digits
