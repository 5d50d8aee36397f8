"""Models of the node's own disk: used where they lie, and only from where the operator allows it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tiny_entries import CONTENT, FOLDER, left_in, local_file, local_folder, write_files

from runners import models
from runners.models import HashMismatch, SourceRefused, checked


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that the operator allows."""
    directory = tmp_path / "shelf"
    directory.mkdir()
    monkeypatch.setenv("LAB_MODEL_DIRS", os.pathsep.join([str(tmp_path / "none"), str(directory)]))
    return directory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "models"


def test_a_file_is_used_where_it_lies_and_told_as_held(shelf: Path, home: Path) -> None:
    (shelf / "tiny.gguf").write_bytes(CONTENT)
    entry = local_file(shelf / "tiny.gguf")
    assert models.fetch(entry, home) == shelf / "tiny.gguf"
    assert left_in(home) == {f"tiny-{entry.sha256[:12]}.json"}
    assert {"name": "tiny", "sha256": entry.sha256} in models.held_models(home)
    (shelf / "tiny.gguf").unlink()
    assert models.held_models(home) == []


def test_a_folder_is_used_where_it_lies(shelf: Path, home: Path) -> None:
    entry = local_folder(write_files(shelf / "tiny"))
    assert models.fetch(entry, home) == shelf / "tiny"


def test_a_model_below_the_models_folder_is_always_allowed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_MODEL_DIRS", raising=False)
    entry = local_folder(write_files(home / "mine" / "tiny"))
    assert models.fetch(entry, home) == home / "mine" / "tiny"


def test_what_lies_elsewhere_is_refused_with_what_is_allowed(shelf: Path, home: Path, tmp_path: Path) -> None:
    entry = local_folder(write_files(tmp_path / "elsewhere"))
    with pytest.raises(SourceRefused, match="outside of the directories") as refusal:
        models.fetch(entry, home)
    assert str(shelf) in str(refusal.value) and str(home) in str(refusal.value) and not refusal.value.retry


def test_a_link_that_leads_out_of_an_allowed_directory_is_refused(shelf: Path, home: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "elsewhere")
    (shelf / "tiny").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceRefused, match="outside"):
        models.fetch(local_folder(shelf / "tiny"), home)
    inner = write_files(shelf / "inner")
    (inner / "model.safetensors").unlink()
    (inner / "model.safetensors").symlink_to(tmp_path / "elsewhere" / "model.safetensors")
    with pytest.raises(SourceRefused, match="outside"):
        models.fetch(local_folder(inner), home)


def test_a_link_within_the_allowed_directories_is_followed(shelf: Path, home: Path) -> None:
    write_files(shelf / "real")
    (shelf / "tiny").symlink_to(shelf / "real")
    assert models.fetch(local_folder(shelf / "tiny"), home) == shelf / "tiny"


def test_a_directory_whose_name_only_begins_alike_is_not_allowed(shelf: Path, home: Path) -> None:
    entry = local_folder(write_files(shelf.with_name("shelf-of-others") / "tiny"))
    with pytest.raises(SourceRefused, match="outside"):
        models.fetch(entry, home)


def test_what_is_missing_or_has_another_size_is_named(shelf: Path, home: Path) -> None:
    entry = local_folder(shelf / "tiny")
    with pytest.raises(SourceRefused, match=r"config\.json of model tiny is not on this machine"):
        models.fetch(entry, home)
    write_files(shelf / "tiny")
    (shelf / "tiny" / "tokenizer.json").write_bytes(b"{ }")
    with pytest.raises(SourceRefused, match=r"tokenizer\.json of model tiny has 3 bytes, registered are 2"):
        models.fetch(entry, home)


def test_a_folder_with_a_file_that_a_loader_might_read_unseen_is_refused(shelf: Path, home: Path) -> None:
    entry = local_folder(write_files(shelf / "tiny"))
    (shelf / "tiny" / "README.md").write_text("of no effect")
    models.fetch(entry, home)
    (shelf / "tiny" / "chat_template.jinja").write_text("unseen")
    with pytest.raises(SourceRefused, match=r"also holds chat_template\.jinja"):
        models.fetch(entry, home)


def test_hashes_are_computed_once_and_again_when_a_file_changed(shelf: Path, home: Path) -> None:
    entry = local_folder(write_files(shelf / "tiny"))
    told: list[int] = []

    def check() -> int:
        told.clear()
        models.fetch(entry, home, checking=lambda done, total: told.append(done))
        return len(told)

    assert check() == len(FOLDER) and told[-1] == entry.bytes
    assert check() == 0
    changed = shelf / "tiny" / "model.safetensors"
    before = changed.stat()
    changed.write_bytes(b"x" * len(CONTENT))
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(HashMismatch):
        check()


def test_a_memory_of_hashes_that_was_tampered_with_is_no_memory(shelf: Path, home: Path) -> None:
    (shelf / "tiny.gguf").write_bytes(CONTENT)
    entry = local_file(shelf / "tiny.gguf")
    models.fetch(entry, home)
    (note,) = (home / checked.FOLDER).iterdir()
    for text in ("", "[]", "{}", json.dumps({"stamp": [0], "sha256": "0" * 64})):
        note.write_text(text)
        assert checked.recall(shelf / "tiny.gguf", home) is None
        models.fetch(entry, home)
