"""What model files of either kind share: the record of one tensor, and the error for a file that can't be used.

Imports no torch and reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class ModelFileError(ValueError):
    """A model file that can't be used. Says which part of which file, what was expected, and what was found."""

    retry = False

    def __init__(self, path: Path, part: str, expected: str, found: str) -> None:
        super().__init__(f"{path.name}: {part}: expected {expected}, found {found}")
        self.path, self.part, self.expected, self.found = path, part, expected, found


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One tensor in a file: `shape` is (rows, columns) as torch counts them, `start` its first byte in its file.

    `type_name` is the file's own word: "Q4_K", "BF16".
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    start: int
    num_bytes: int


def shown(text: str, most: int = 80) -> str:
    """A name out of a file as an error may print it: control characters escaped, a long one cut."""
    plain = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:most])
    return plain if len(text) <= most else f"{plain}…"
