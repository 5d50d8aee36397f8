"""A file of JSON objects, one a line, read line by line; a wrong line is named by its number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runners.interchange.errors import BadFile
from runners.interchange.texts import check_texts

MAX_LINE_BYTES = 32 << 20


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(`line n`, the object) of each line that is not empty."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            where = f"line {number}"
            if len(line) > MAX_LINE_BYTES:
                raise BadFile(where, f"is longer than {MAX_LINE_BYTES} bytes")
            if line.strip():
                yield where, parse_line(line, where)


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line, parse_constant=lambda name: None)
    except UnicodeDecodeError as error:
        raise BadFile(where, f"is no UTF-8 text: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise BadFile(where, f"is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadFile(where, "is no object", "one JSON object a line")
    check_texts(line, value, where)
    return value
