"""A file on its way to the lab: piece by piece, and its length said beforehand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runners.cli.client import Client, Json
from runners.cli.errors import WrongUse

PIECE_BYTES = 1 << 20
PATIENCE_S = 900.0
"""How long a large file may take to be stored."""


class FilePieces:
    """A file's bytes, from its beginning each time: what is sent again is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece


def upload(client: Client, address: str, path: Path, /, **query: Any) -> Json:
    """The lab's answer. Raises WrongUse for a file that can't be read, before anything is sent."""
    try:
        with path.open("rb") as opened:
            length = os.fstat(opened.fileno()).st_size
    except OSError as error:
        raise WrongUse(f"{path} can't be read: {error.strerror}") from error
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(length)}
    made: Json = client.post(address, content=FilePieces(path), headers=headers, patience_s=PATIENCE_S, **query)
    return made
