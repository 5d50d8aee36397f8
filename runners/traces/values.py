"""Values of a trace's line, checked: a number of tokens, a time, a name. Each raises LineFault with what is allowed."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from runners.plain_text import NAME_RULE, is_name
from runners.traces.rows import MAX_PREFIX_IDS, MAX_TOKENS, LineFault

SHOWN = 40
LARGEST_ID = 2**63 - 1
EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def read_object(line: bytes | str) -> dict[str, Any]:
    """The JSON object of a line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineFault("no JSON object: " + str(error).split(":")[0].lower()) from error
    if not isinstance(found, dict):
        raise LineFault(f"{shown(found)} is no JSON object")
    return found


def need(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise LineFault(f"{name} is missing")
    return row[name]


def tokens(value: Any, name: str, least: int = 1) -> int:
    """A whole number of tokens, as JSON's number or as text; an integral float is one too."""
    number = _number(value, name)
    if number != int(number) or not least <= number <= MAX_TOKENS:
        raise LineFault(f"{name}: {shown(value)}; allowed: a whole number from {least} to {MAX_TOKENS}")
    return int(number)


def seconds(value: Any, name: str, *, per_second: float = 1.0) -> float:
    """A time that is not negative, in units of which `per_second` make a second."""
    number = _number(value, name) / per_second
    if not 0 <= number <= 1e12:
        raise LineFault(f"{name}: {shown(value)}; allowed: a time from 0 on")
    return number


def moment_s(text: str, name: str) -> float:
    """Seconds since 1970 of a moment such as `2023-11-16 18:17:03.9799600`; one without a zone is read as UTC."""
    # Azure writes 100 ns; a microsecond is what datetime keeps.
    cut = re.sub(r"(\.\d{6})\d+", r"\1", text.strip())
    try:
        found = dt.datetime.fromisoformat(cut)
        moment = found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found
        passed = (moment - EARLIEST).total_seconds()
    except (ValueError, OverflowError) as error:
        raise LineFault(f"{name}: {shown(text)}; allowed: a moment such as 2023-11-16 18:17:03.97") from error
    if passed < 0:
        raise LineFault(f"{name}: {shown(text)}; allowed: a moment from 1970 on")
    return passed


def prefix_ids(value: Any, name: str, blocks: int) -> tuple[int, ...]:
    """Ids of the prompt's blocks, at most as many as it has; text stands for the number that it hashes to."""
    if not isinstance(value, list):
        raise LineFault(f"{name}: {shown(value)}; allowed: a list of whole numbers, or of texts")
    if len(value) > min(blocks, MAX_PREFIX_IDS):
        raise LineFault(f"{name}: {len(value)} ids; allowed: at most {min(blocks, MAX_PREFIX_IDS)}, one for each block")
    return tuple(_id(one, name) for one in value)


def hashed(text: str) -> int:
    """A number that stands for a text: 63 bits of its hash."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 1


def label(value: Any, name: str, most: int) -> str:
    """A name that can be shown; whole numbers count as names too."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not 0 < len(text) <= most or not is_name(text):
        raise LineFault(f"{name}: {shown(value)}; allowed: 1 to {most} characters, {NAME_RULE}")
    return text


def _id(value: Any, name: str) -> int:
    if isinstance(value, str):
        return hashed(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_ID:
        raise LineFault(f"{name}: {shown(value)}; allowed: whole numbers from 0 to {LARGEST_ID}, or texts")
    return value


def _number(value: Any, name: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise LineFault(f"{name}: {shown(value)}; allowed: a number") from error
    if not math.isfinite(number):
        raise LineFault(f"{name}: {shown(value)}; allowed: a finite number")
    return number
