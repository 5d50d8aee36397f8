"""Values of nested mappings by dotted path, as documents and their matrices name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""As a default tells what is not there from what is null."""


def read(document: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path; `default` where there is none."""
    for key in path.split("."):
        if not isinstance(document, Mapping) or key not in document:
            return default
        document = document[key]
    return document
