"""SHA-256 of files, each computed once for as long as the file stays what it was.

What is known is kept in the models folder, one small file for each path, and counts only while device, inode, size and
both times of the file are the same: whoever changes a file changes its ctime. A folder that can't be written costs a
computation at each check, no more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from runners.models.entry import ModelEntry
from runners.models.errors import HashMismatch, SourceRefused, WrongSize
from runners.models.storage import files_at, unlisted_files

CHUNK_BYTES = 4 * 1024 * 1024
FOLDER = ".checked"

Progress = Callable[[int, int], None]
"""`progress(done_bytes, total_bytes)`; it may raise, which ends what it is told of."""

log = logging.getLogger(__name__)


def ignore_progress(done_bytes: int, total_bytes: int) -> None:
    return None


def sha256_of(path: Path, progress: Progress = ignore_progress) -> str:
    """Reads the whole file."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            progress(done, total)
    return digest.hexdigest()


def verify(model: ModelEntry, path: Path, progress: Progress = ignore_progress, known: Path | None = None) -> None:
    """Holds every file of the model at `path` against its entry: size, then hash. Raises WrongSize, HashMismatch,
    SourceRefused where the folder has files that are not the model's, OSError.

    With `known`, a models folder, hashes that were computed before are taken from there and new ones kept there.
    """
    if extra := unlisted_files(model, path):
        raise SourceRefused(f"{path} also holds {', '.join(extra[:5])}, registered are only the files of {model.name}")
    done = 0
    for file, place in files_at(model, path):
        size = place.stat().st_size
        if size != file.bytes:
            raise WrongSize(place, file.bytes, size)
        found = (known and recall(place, known)) or _compute(place, done, model.bytes, progress, known)
        if found != file.sha256:
            raise HashMismatch(place, file.sha256, found)
        done += file.bytes


def _compute(path: Path, before: int, total: int, progress: Progress, known: Path | None) -> str:
    stamp = _stamp(path)
    digest = sha256_of(path, lambda done, _: progress(before + done, total))
    if known is not None and _stamp(path) == stamp:
        remember(path, digest, known)
    return digest


def recall(path: Path, models_dir: Path) -> str | None:
    """The hash of the file, if it is known and the file is what it was."""
    try:
        kept = json.loads(_note(path, models_dir).read_text())
        return str(kept["sha256"]) if kept["stamp"] == _stamp(path) else None
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or not one of ours: it is computed again
        return None


def remember(path: Path, digest: str, models_dir: Path) -> None:
    """Keeps the hash, which must be that of the file as it is."""
    note = _note(path, models_dir)
    staged = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(json.dumps({"path": str(path), "stamp": _stamp(path), "sha256": digest}))
        staged.rename(note)
    except OSError as error:
        log.info("the hash of %s is not kept: %s", path, error)


def _note(path: Path, models_dir: Path) -> Path:
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    return models_dir / FOLDER / f"{name}.json"


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
