"""What is typed, as a plain value of the document's dialect."""

from __future__ import annotations

import math

from runners.document import SpecError, parse_text
from runners.spec import Setting


def scalar(text: str) -> Setting:
    """Text as a plain YAML scalar: a number, true, false, null, or text.

    A number beyond floats stays as it was typed: infinity could not be told from it in the document's text.
    """
    try:
        parsed = parse_text(f"value: {text.strip()}").get("value")
    except SpecError:
        return text
    if isinstance(parsed, float) and not math.isfinite(parsed):
        return text.strip()
    return parsed if isinstance(parsed, str | int | float | bool | None) else text
