"""Where models lie on a disk, and which of them are there.

A fetched model lies below the models folder as `<name>-<first digits of its hash>`, beside a manifest of the same name
that holds its entry; so no two models meet, and a node knows what it holds without asking the lab. A single GGUF file
may also lie in the models folder itself, under its own name; a model of the node's disk stays where it is.
Presence is told here by names and sizes; hashes are for `runners.models.checked`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from runners.models.entry import LocalSource, ModelEntry, ModelFile
from runners.models.errors import BadEntry, SourceRefused
from runners.models.layout import unlisted
from runners.models.registry import REGISTRY

ALLOWED_DIRS = "LAB_MODEL_DIRS"

log = logging.getLogger(__name__)


def lab_home() -> Path:
    """Where the lab keeps its state: LAB_HOME, else `.lab` in the working directory."""
    return Path(os.environ.get("LAB_HOME") or ".lab").resolve()


def default_models_dir() -> Path:
    return lab_home() / "models"


def allowed_dirs(models_dir: Path) -> list[Path]:
    """From where this machine's operator lets models of the disk be taken: its models folder, and those of
    LAB_MODEL_DIRS (separated as in PATH)."""
    named = [part for part in os.environ.get(ALLOWED_DIRS, "").split(os.pathsep) if part]
    return [Path(part).resolve() for part in [str(models_dir), *named]]


def folder_of(model: ModelEntry, models_dir: Path) -> Path:
    return models_dir / f"{model.name}-{model.sha256[:12]}"


def files_at(model: ModelEntry, path: Path) -> list[tuple[ModelFile, Path]]:
    """Where each file of the model is, when the model is at `path`: a folder's path, or that of the one file."""
    return [(file, path / file.name if model.is_folder else path) for file in model.files]


def path_if_present(model: ModelEntry, models_dir: Path) -> Path | None:
    """Where the model lies, if all its files are there with their sizes. Raises SourceRefused where a model of the disk
    lies outside of what is allowed."""
    for path in _places(model, models_dir):
        if is_complete(model, path):
            if isinstance(model.source, LocalSource) and path == Path(model.source.path):
                check_allowed(model, path, models_dir)
            return path
    return None


def is_complete(model: ModelEntry, path: Path) -> bool:
    try:
        return all(place.is_file() and place.stat().st_size == file.bytes for file, place in files_at(model, path))
    except OSError:  # not ours to read, or gone while we looked
        return False


def check_allowed(model: ModelEntry, path: Path, models_dir: Path) -> None:
    """Raises SourceRefused unless every file, with links followed, lies below an allowed directory."""
    allowed = allowed_dirs(models_dir)
    for _, place in files_at(model, path):
        real = place.resolve()
        if not any(real.is_relative_to(directory) for directory in allowed):
            raise SourceRefused(
                f"{place} of model {model.name} lies outside of the directories that this machine allows: "
                f"{', '.join(map(str, allowed))} (its operator sets {ALLOWED_DIRS})"
            )


def unlisted_files(model: ModelEntry, path: Path) -> list[str]:
    """Files beside the model's own that a loader would read, by name."""
    return unlisted((file.name for file in model.files), file_names(path)) if model.is_folder else []


def file_names(folder: Path) -> list[str]:
    """Names of the files in a folder and in the folders right below it, with '/' between the parts."""
    return [path.relative_to(folder).as_posix() for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file()]


def keep_manifest(model: ModelEntry, models_dir: Path) -> None:
    """Notes that this machine has the model. Replaced whole, so that no reader meets half of one.

    A models folder that can't be written costs this node's mention among the model's holders, no more.
    """
    target = models_dir / f"{folder_of(model, models_dir).name}.json"
    text = json.dumps(model.to_dict(), indent=2)
    if REGISTRY.get(model.name) == model or (target.is_file() and target.read_text() == text):
        return
    staged = models_dir / f".{target.name}.{os.getpid()}"
    try:
        models_dir.mkdir(parents=True, exist_ok=True)
        staged.write_text(text)
        staged.rename(target)
    except OSError as error:
        log.warning("%s is not noted in %s: %s", model.name, models_dir, error)


def known_models(models_dir: Path) -> Iterator[ModelEntry]:
    """The shipped models and those that have a manifest here."""
    seen = set()
    for model in [*REGISTRY.values(), *_manifests(models_dir)]:
        if (model.name, model.sha256) not in seen:
            seen.add((model.name, model.sha256))
            yield model


def held_models(models_dir: Path) -> list[dict[str, str]]:
    """What a node tells the lab: name and hash of each known model whose files are here."""
    held = []
    for model in known_models(models_dir):
        try:
            present = path_if_present(model, models_dir)
        except SourceRefused:  # known from a time when its directory was allowed
            continue
        if present is not None:
            held.append({"name": model.name, "sha256": model.sha256})
    return held


def _places(model: ModelEntry, models_dir: Path) -> Iterator[Path]:
    folder = folder_of(model, models_dir)
    if model.is_folder:
        yield folder
    else:
        yield folder / model.files[0].name
        yield models_dir / model.files[0].name
    if isinstance(model.source, LocalSource):
        yield Path(model.source.path)


def _manifests(models_dir: Path) -> Iterator[ModelEntry]:
    for path in sorted(models_dir.glob("*.json")):
        try:
            model = ModelEntry.from_dict(json.loads(path.read_text()))
        except (OSError, ValueError, TypeError, BadEntry) as error:
            log.warning("%s is no manifest of a model and is left alone: %s", path, error)
            continue
        if path.stem == folder_of(model, models_dir).name:
            yield model
