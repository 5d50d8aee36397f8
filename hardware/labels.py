"""A node's labels: a flat mapping of short words, by which experiments choose nodes."""

from __future__ import annotations

import re
from typing import Any

from hardware.errors import HardwareError
from runners.plain_text import is_name

KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
MAX_LABELS = 20
MAX_VALUE_LENGTH = 100
# every node has these from its record (Node.all_labels)
RESERVED = ("chip", "kind", "name")
ALLOWED = (
    f"at most {MAX_LABELS} labels, key: lower-case letters, digits, '.', '_', '-'; value: text up to {MAX_VALUE_LENGTH}"
)


def check_labels(labels: Any) -> dict[str, str]:
    """The labels, if a node may carry them. Raises HardwareError with the first fault."""
    if not isinstance(labels, dict):
        raise HardwareError("labels", f"a {type(labels).__name__} is not a mapping of labels", ALLOWED)
    if len(labels) > MAX_LABELS:
        raise HardwareError("labels", f"{len(labels)} labels", ALLOWED)
    for key, value in labels.items():
        if not isinstance(key, str) or not KEY.fullmatch(key):
            raise HardwareError(f"labels.{key}", "not a label's key", ALLOWED)
        if key in RESERVED:
            raise HardwareError(f"labels.{key}", "every node has this label from its record; it can't be set", ALLOWED)
        if not isinstance(value, str) or not is_name(value) or not 0 < len(value) <= MAX_VALUE_LENGTH:
            raise HardwareError(f"labels.{key}", f"{value!r} is not a label's value", ALLOWED)
    return dict(labels)
