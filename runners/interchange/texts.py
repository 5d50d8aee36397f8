"""Whether JSON that was parsed holds only texts that can be written again: its escapes can spell half a character."""

from __future__ import annotations

import json
import re
from typing import Any

from runners.interchange.errors import BadFile

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def check_texts(raw: bytes, value: Any, where: str) -> None:
    """Raises BadFile where `value`, parsed from `raw`, holds half a surrogate pair. Looks only where one is spelled."""
    if not _SURROGATE.search(raw):
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadFile(where, "holds half a surrogate pair", "Unicode text") from error
