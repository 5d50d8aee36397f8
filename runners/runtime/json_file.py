"""JSON objects out of a model's folder, read with suspicion: bounded in size, no key twice, no NaN, no deep nesting.

It checks no field's meaning.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from runners.runtime.model_file import ModelFileError, shown

MAX_BYTES = 1 << 20
"""The largest configuration file read, in bytes; published ones take a few KiB."""


def read_json_object(path: Path, most_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The object in a JSON file. Raises ModelFileError if it is larger, unreadable, or anything but one object."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise ModelFileError(path, "file", "a readable file", error.strerror or str(error)) from error
    if len(data) > most_bytes:
        raise ModelFileError(path, "file", f"at most {most_bytes} bytes", "more")
    return parse_json_object(path, "file", data)


def parse_json_object(path: Path, part: str, data: bytes) -> dict[str, Any]:
    """The object in the bytes of a part of a file. Raises ModelFileError naming that part."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ModelFileError(path, part, "JSON of moderate depth", "values nested too deeply") from error
    except ValueError as error:  # bad JSON, bad UTF-8, a key twice, NaN, a number of thousands of digits
        raise ModelFileError(path, part, "a JSON object", shown(str(error), 200)) from error
    if not isinstance(value, dict):
        raise ModelFileError(path, part, "a JSON object", type(value).__name__)
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shown(twice)!r} twice")
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word}, which is no JSON number")
