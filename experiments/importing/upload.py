"""An uploaded file on disk: copied piece by piece under a name of our own, counted and hashed, gone when done with."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from experiments.errors import BadParameter, ExperimentError

PIECE_BYTES = 1 << 20
MAX_BYTES = 2 << 30
"""Of one file; a million requests with all their token times fit."""
NAME_CHARACTERS = 120


class TooLarge(ExperimentError):
    """More bytes than a file may have."""


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Upload:
    """`name` is what the sender calls it, for people alone: it is never part of a path."""

    path: Path
    name: str
    size: int
    sha256: str


@contextmanager
def kept(source: Source, name: str, limit: int = MAX_BYTES) -> Iterator[Upload]:
    """The file while the block lasts. Raises TooLarge, BadParameter where it is empty."""
    digest, size = hashlib.sha256(), 0
    with tempfile.NamedTemporaryFile(prefix="lab-import-") as file:
        while piece := source.read(PIECE_BYTES):
            size += len(piece)
            if size > limit:
                raise TooLarge(f"the file is larger than {limit} bytes")
            digest.update(piece)
            file.write(piece)
        file.flush()
        if not size:
            raise BadParameter("file", "is empty", "a result file")
        yield Upload(Path(file.name), plain_name(name), size, digest.hexdigest())


def plain_name(name: str) -> str:
    """The last part of the name, printable and short."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept_ones = "".join(character if character.isprintable() else "\ufffd" for character in last).strip()
    return kept_ones[:NAME_CHARACTERS] or "file"
