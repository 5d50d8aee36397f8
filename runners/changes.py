"""Changes to a document by dotted path, as `--set` and a clone have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.document import FieldError, SpecError
from runners.matrix import apply_settings

# The parts of a document whose own keys are dotted paths.
KEYED_BY_PATH = ("matrix", "baseline")


def apply_changes(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The document with each value put at its path. `matrix.engine.weights` means the axis `engine.weights`: what
    follows is one key, however many dots it has. Raises SpecError where a path leads through what holds no keys."""
    axes = {path: value for path, value in changes.items() if path.split(".")[0] in KEYED_BY_PATH and "." in path}
    plain = {path: value for path, value in changes.items() if path not in axes}
    changed = apply_settings(document, plain, keep_matrix=True)
    for path, value in axes.items():
        root, _, key = path.partition(".")
        held = changed.setdefault(root, {})
        if not isinstance(held, dict):
            raise SpecError([FieldError(path, f"{root} holds no keys, so this path can't be set")])
        held[key] = value
    return changed
