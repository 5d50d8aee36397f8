"""Where the lab keeps the files of traces: in LAB_TRACES, each by its hash, so that no name of theirs is a path."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

SHA256 = re.compile(r"[0-9a-f]{64}")


def traces_dir() -> Path:
    """Made where it is not there; for the lab's own eyes."""
    path = Path(settings.LAB_TRACES)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def path_of(sha256: str) -> Path:
    if not SHA256.fullmatch(sha256):
        raise ValueError(f"sha256: {sha256!r}; allowed: 64 hexadecimal digits")
    return traces_dir() / f"{sha256}.jsonl"


@contextmanager
def draft() -> Iterator[Path]:
    """A file beside the kept ones, to be moved to its place; gone afterwards if it was not."""
    with tempfile.NamedTemporaryFile(dir=traces_dir(), prefix="draft-", delete=False) as file:
        path = Path(file.name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
