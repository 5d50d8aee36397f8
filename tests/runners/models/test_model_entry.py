"""What an entry may say, and every lie that is refused with the field's name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_entries import COMMIT, FOLDER, SHAPE, hub_model, sha256, wheel_model

from runners.models import BadEntry, ModelEntry
from runners.models.layout import model_files, unlisted
from runners.models.memory import least_memory_bytes, machine_memory_bytes

GOOD = hub_model().to_dict()
FILE = GOOD["files"][0]


def refused(**changes: Any) -> BadEntry:
    with pytest.raises(BadEntry) as refusal:
        ModelEntry.from_dict(GOOD | changes)
    return refusal.value


def test_an_entry_goes_through_json_unchanged() -> None:
    for entry in (hub_model(), wheel_model()):
        assert ModelEntry.from_dict(json.loads(json.dumps(entry.to_dict()))) == entry


def test_the_hash_of_one_file_is_the_models_and_several_have_one_of_their_list() -> None:
    assert wheel_model().sha256 == wheel_model().files[0].sha256
    entry = hub_model()
    lines = "".join(f"{file.sha256}  {file.name}\n" for file in sorted(entry.files, key=lambda one: one.name))
    assert entry.sha256 == sha256(lines.encode())
    assert hub_model(dict(reversed(FOLDER.items()))).sha256 == entry.sha256
    assert entry.bytes == sum(map(len, FOLDER.values()))


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../up.gguf", "a/../b", "a//b", "./a", "a/.", ".hidden", "a\\b", "a\nb", "a\n", "a\x00b",
     "C:/x", "m\u043edel.gguf", "\uff0e\uff0e/a", "a/\u202eb", "~/a", "x" * 300],
)  # fmt: skip
def test_a_file_name_that_could_leave_the_folder_or_look_like_another_is_refused(name: str) -> None:
    refusal = refused(files=[*GOOD["files"], FILE | {"name": name}])
    assert any(field == "files.3.name" for field, _, _ in refusal.faults)


@settings(max_examples=200)
@given(st.text(max_size=30))
def test_no_name_that_is_taken_leaves_its_folder(name: str) -> None:
    try:
        entry = ModelEntry.from_dict(GOOD | {"files": [*GOOD["files"], FILE | {"name": name}]})
    except BadEntry:
        return
    taken = entry.files[-1].name
    assert taken.isascii() and not taken.startswith("/") and ".." not in taken.split("/") and taken == name


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a/b", "..", "a\n", "mod\u0435l", "x" * 101])
def test_a_bad_name_is_refused(name: str) -> None:
    assert refused(name=name).faults[0][0] == "name"


@pytest.mark.parametrize("size", [0, -1, 2**46 + 1, 1.5, "12", True, None])
def test_a_size_that_no_file_has_is_refused(size: Any) -> None:
    assert refused(files=[FILE | {"bytes": size}, *GOOD["files"][1:]]).faults[0][0] == "files.0.bytes"


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 64 + "\n", None, 5])
def test_what_is_no_sha256_is_refused(digest: Any) -> None:
    assert refused(files=[FILE | {"sha256": digest}, *GOOD["files"][1:]]).faults[0][0] == "files.0.sha256"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["config.json", "model.safetensors", "Model.safetensors"], "same name"),
        (["config.json", "model.safetensors", "model.safetensors/b"], "both a file and a folder"),
        (["config.json", "model.bin"], "model.safetensors"),
        (["config.json", "a-1-of-1.safetensors"], "an index"),
        (["model.safetensors"], "config.json"),
    ],
)
def test_files_that_make_no_model_are_refused(names: list[str], words: str) -> None:
    (field, message, _) = refused(files=[FILE | {"name": name} for name in names]).faults[0]
    assert field == "files" and words in message


def test_of_a_repository_only_what_the_runtime_reads_makes_up_the_model() -> None:
    beside = ["config.json", "tokenizer.json", "additional_chat_templates/tools.jinja"]
    others = ["README.md", "model.bin", "onnx/model.onnx", "original/tokenizer.json", "consolidated.safetensors"]
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    assert model_files([*beside, *others, *shards]) == sorted([*beside, *shards])
    assert model_files([*beside, *shards, "model.safetensors"]) == sorted([*beside, "model.safetensors"])
    assert unlisted(beside, [*beside, *others, "model.safetensors", "chat_template.jinja"]) == [
        "chat_template.jinja", "model.safetensors",
    ]  # fmt: skip


def test_a_gguf_model_is_one_gguf_file() -> None:
    assert refused(format="gguf").faults[0][0] == "files"


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"kind": "ftp"}, "source"),
        ({}, "source"),
        ({"kind": "hub", "repo": "owner/tiny", "revision": "main"}, "source.revision"),
        ({"kind": "hub", "repo": "../tiny", "revision": COMMIT}, "source.repo"),
        ({"kind": "hub", "repo": "a/b/c", "revision": COMMIT}, "source.repo"),
        ({"kind": "hub", "repo": "a--b/c", "revision": COMMIT}, "source.repo"),
        ({"kind": "hub", "repo": "owner/tiny", "revision": COMMIT, "token": "x"}, "source.token"),
        ({"kind": "local", "path": "models/tiny"}, "source.path"),
        ({"kind": "local", "path": "/models/../etc"}, "source.path"),
        ({"kind": "local", "path": "/models/\x00"}, "source.path"),
        ({"kind": "wheel", "requirement": "tiny", "member": "a.gguf"}, "source.requirement"),
        ({"kind": "wheel", "requirement": "--index-url=http://x", "member": "a.gguf"}, "source.requirement"),
        ({"kind": "wheel", "requirement": "tiny @ http://x/tiny.whl", "member": "a.gguf"}, "source.requirement"),
        ({"kind": "wheel", "requirement": "tiny==1", "member": "../a.gguf"}, "source.member"),
    ],
)
def test_a_source_that_says_more_than_a_place_is_refused(source: dict[str, Any], field: str) -> None:
    assert field in [fault[0] for fault in refused(source=source).faults]


@pytest.mark.parametrize(
    "change",
    [{"layers": 0}, {"layers": -1}, {"layers": 2**41}, {"layers": 1.5}, {"layers": True}, {"layers": None},
     {"tied_embeddings": 1}, {"Bad Key": 1}, {"x": {"deep": 1}}, {"x": float("nan")}, {"x": [[1]]}, {"x": "a\n"}],
)  # fmt: skip
def test_a_shape_that_no_model_has_is_refused(change: dict[str, Any]) -> None:
    assert refused(shape=SHAPE | change).faults[0][0] == "shape"


def test_a_mixture_may_have_no_dense_layer() -> None:
    assert ModelEntry.from_dict(GOOD | {"shape": SHAPE | {"ffn": 0, "experts": 8}}).shape["ffn"] == 0
    assert refused(shape=SHAPE | {"ffn": 0}).faults[0][0] == "shape"


def test_unknown_fields_and_unprintable_words_are_refused_together() -> None:
    fields = {fault[0] for fault in refused(more=1, title="a\x07", licence="x" * 101).faults}
    assert fields == {"more", "title", "licence"}


def test_the_least_memory_is_weights_and_one_sequence() -> None:
    kv_bytes_per_token = 2 * 2 * 2 * 16 * 2
    assert least_memory_bytes(SHAPE, "bf16", "bf16", 100) == 200_000 + 100 * kv_bytes_per_token
    assert least_memory_bytes(SHAPE, "int8", "bf16", 100) == 100_000 + 100 * kv_bytes_per_token
    assert least_memory_bytes(SHAPE | {"sliding_window": 10}, "int8", "bf16", 100) == 100_000 + 10 * kv_bytes_per_token
    assert least_memory_bytes(SHAPE, "of tomorrow", "bf16", 0) == 0


@pytest.mark.parametrize(
    ("facts", "memory"),
    [
        ({}, None),
        ({"memory": "lots"}, None),
        ({"memory": {"usable_bytes": 8}}, 8),
        ({"memory": {"usable_bytes": 8}, "accelerators": [{"memory_bytes": 5}, {"memory_bytes": 6}]}, 11),
        ({"memory": {"usable_bytes": 8}, "accelerators": [{"name": "mps"}]}, 8),
        ({"accelerators": "none"}, None),
    ],
)
def test_a_machine_has_its_own_memory_or_that_of_its_accelerators(facts: dict[str, Any], memory: int | None) -> None:
    assert machine_memory_bytes(facts) == memory
