"""What a folder in Hugging Face layout gives, and how files that lie about themselves are refused."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf_bytes import Contents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from runners.runtime.tensor_file import GGUFFile, ModelFileError, SafetensorsFolder, open_tensor_file

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def make_folder(path: Path, tensors: Mapping[str, torch.Tensor] | None = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text('{"model_type": "llama"}')
    if tensors is not None:
        save_file(dict(tensors), path / WEIGHTS, metadata={"format": "pt"})
    return path


def some_tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    values = torch.randn(3, 8, generator=generator)
    return {"wide": values, "half": values.half(), "brain": values.bfloat16(), "scalar": torch.tensor(2.5)}


def write_raw(folder: Path, header: object, data: bytes = bytes(8), length: int | None = None) -> Path:
    """A folder whose one file has this header: an object, or bytes as they stand."""
    make_folder(folder)
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    prefix = struct.pack("<Q", len(encoded) if length is None else length)
    (folder / WEIGHTS).write_bytes(prefix + encoded + data)
    return folder


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


def refusal(folder: Path) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        SafetensorsFolder(folder)
    assert str(caught.value).isprintable()
    assert caught.value.retry is False
    return caught.value


def test_tensors_come_back_as_float32_in_their_shape(tmp_path: Path) -> None:
    tensors = some_tensors()
    folder = SafetensorsFolder(make_folder(tmp_path, tensors))
    assert {name: (record.shape, record.type_name) for name, record in folder.tensors.items()} == {
        "wide": ((3, 8), "F32"), "half": ((3, 8), "F16"), "brain": ((3, 8), "BF16"), "scalar": ((), "F32"),
    }  # fmt: skip
    for name, tensor in tensors.items():
        read = folder.read(name)
        assert read.dtype == torch.float32
        assert torch.equal(read, tensor.float())


def test_what_was_read_may_be_changed_without_touching_the_file(tmp_path: Path) -> None:
    folder = SafetensorsFolder(make_folder(tmp_path, some_tensors()))
    before = (tmp_path / WEIGHTS).read_bytes()
    folder.read("wide").fill_(0)
    assert torch.equal(folder.read("wide"), some_tensors()["wide"])
    assert (tmp_path / WEIGHTS).read_bytes() == before


def test_configurations_come_along(tmp_path: Path) -> None:
    make_folder(tmp_path, some_tensors())
    assert SafetensorsFolder(tmp_path).config == {"model_type": "llama"}
    assert SafetensorsFolder(tmp_path).generation_config == {}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert SafetensorsFolder(tmp_path).generation_config == {"eos_token_id": [1, 2]}


def test_a_path_is_opened_by_what_lies_there(tmp_path: Path) -> None:
    assert isinstance(open_tensor_file(make_folder(tmp_path / "model", some_tensors())), SafetensorsFolder)
    assert isinstance(open_tensor_file(Contents().write(tmp_path / "m.gguf")), GGUFFile)
    with pytest.raises(ModelFileError, match="a readable GGUF file"):
        open_tensor_file(tmp_path / "absent.gguf")


def make_sharded(folder: Path) -> dict[str, str]:
    make_folder(folder)
    save_file({"a": torch.ones(2), "b": torch.zeros(3)}, folder / "model-00001-of-00002.safetensors")
    save_file({"c": torch.full((2, 2), 3.0)}, folder / "model-00002-of-00002.safetensors")
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    return {"a": first, "b": first, "c": second}


def write_index(folder: Path, shards: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": shards}))


def test_shards_are_read_as_one_model(tmp_path: Path) -> None:
    write_index(tmp_path, make_sharded(tmp_path))
    folder = SafetensorsFolder(tmp_path)
    assert sorted(folder.tensors) == ["a", "b", "c"]
    assert torch.equal(folder.read("c"), torch.full((2, 2), 3.0))
    assert torch.equal(folder.read("a"), torch.ones(2))


def test_a_tensor_that_its_shard_lacks_is_named(tmp_path: Path) -> None:
    shards = make_sharded(tmp_path)
    write_index(tmp_path, shards | {"c": shards["a"]})
    assert refusal(tmp_path).part == "tensor c"


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    shards = make_sharded(tmp_path)
    write_index(tmp_path, shards)
    (tmp_path / shards["c"]).unlink()
    assert shards["c"] in refusal(tmp_path).part


@pytest.mark.parametrize(
    "shard",
    [
        "../other/model.safetensors", "/etc/model.safetensors", "sub/model.safetensors", "..\\model.safetensors",
        "..", "", ".safetensors", "model.bin", "C:model.safetensors", "a\x00.safetensors", 7, None, ["m.safetensors"],
        "x" * 300 + ".safetensors",
    ],
)  # fmt: skip
def test_a_shard_is_named_by_no_path(tmp_path: Path, shard: object) -> None:
    make_folder(tmp_path / "other", some_tensors())
    make_folder(tmp_path / "model")
    write_index(tmp_path / "model", {"wide": shard})
    assert refusal(tmp_path / "model").part == "weight_map.wide"


@pytest.mark.parametrize("shards", [None, [], {}, "model.safetensors"])
def test_an_index_without_a_map_is_refused(tmp_path: Path, shards: object) -> None:
    make_folder(tmp_path)
    write_index(tmp_path, shards)
    assert refusal(tmp_path).part == "weight_map"


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    outside = make_folder(tmp_path / "outside", some_tensors())
    folder = make_folder(tmp_path / "model", some_tensors())
    (folder / name).unlink()
    (folder / name).symlink_to(outside / name)
    assert refusal(folder).part == f"file {name}"


def test_the_links_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    blobs = make_folder(tmp_path / "models--a--b" / "blobs", some_tensors())
    folder = tmp_path / "models--a--b" / "snapshots" / "0123"
    folder.mkdir(parents=True)
    for name in ("config.json", WEIGHTS):
        (folder / name).symlink_to(Path("../../blobs") / name)
    assert torch.equal(SafetensorsFolder(folder).read("wide"), some_tensors()["wide"])
    assert blobs.is_dir()


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / WEIGHTS).symlink_to(WEIGHTS)
    assert refusal(folder).part == "weights"


def test_a_folder_without_weights_says_what_it_has(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert "found pytorch_model.bin" in str(refusal(folder))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "JSON object"),
        (b"[]", "found list"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": ' + b"[" * 100_000, "too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "JSON object"),
        (b'{"a": "\xff"}', "JSON object"),
        (b" " * ((1 << 20) + 1), "at most"),
    ],
)
def test_a_configuration_that_is_no_plain_object_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    folder = make_folder(tmp_path, some_tensors())
    (folder / "config.json").write_bytes(content)
    assert said in str(refusal(folder))


LIES: dict[str, tuple[object, str, str]] = {
    "no object": ([], "header", "found list"),
    "no JSON": (b"{", "header", "JSON object"),
    "no text": (b'{"\xff": 1}', "header", "JSON object"),
    "deep nesting": (b'{"a":' * 100_000, "header", "too deeply"),
    "a name twice": (b'{"a": {}, "a": {}}', "header", "'a' twice"),
    "notes that are no texts": ({"__metadata__": {"a": 1}}, "header __metadata__", "texts"),
    "an entry that is no object": ({"a": 3}, "tensor a", "dtype, shape and data_offsets"),
    "an entry that lacks a field": ({"a": {"dtype": "F32"}}, "tensor a", "dtype, shape and data_offsets"),
    "an unknown type": ({"a": entry(dtype="F7")}, "tensor a", "found F7"),
    "FP8 weights": ({"a": entry(dtype="F8_E4M3", shape=[8])}, "tensor a", "found F8_E4M3"),
    "a type that is no text": ({"a": entry(dtype=[1])}, "tensor a", "F32"),
    "a shape that is no list": ({"a": entry(shape="2")}, "tensor a", "shape"),
    "a negative dimension": ({"a": entry(shape=[-2])}, "tensor a", "shape"),
    "a dimension of 0": ({"a": entry(shape=[0], data_offsets=[0, 0])}, "tensor a", "shape"),
    "a fractional dimension": ({"a": entry(shape=[2.0])}, "tensor a", "shape"),
    "true as a dimension": ({"a": entry(shape=[True])}, "tensor a", "shape"),
    "a dimension of 2^63": ({"a": entry(shape=[2**63])}, "tensor a", "shape"),
    "dimensions that overflow": ({"a": entry(shape=[2**32, 2**32])}, "tensor a", "data_offsets"),
    "twenty dimensions": ({"a": entry(shape=[1] * 20)}, "tensor a", "shape"),
    "bytes that do not fit": ({"a": entry(shape=[3])}, "tensor a", "data_offsets of 12 bytes"),
    "offsets the wrong way": ({"a": entry(data_offsets=[8, 0])}, "tensor a", "data_offsets"),
    "three offsets": ({"a": entry(data_offsets=[0, 8, 8])}, "tensor a", "data_offsets"),
    "negative offsets": ({"a": entry(data_offsets=[-8, 0])}, "tensor a", "data_offsets"),
    "offsets outside": ({"a": entry(data_offsets=[800, 808])}, "tensor a", "from offset 0 on"),
    "more than the file": ({"a": entry(shape=[2**20], data_offsets=[0, 2**22])}, "data", "the file ends at"),
    "less than the file": ({"a": entry(shape=[1], data_offsets=[0, 4])}, "data", "the file ends at"),
    "tensors over each other": (
        {"a": entry(shape=[1], data_offsets=[0, 4]), "b": entry(data_offsets=[0, 8])}, "tensor b", "from offset 4 on",
    ),
    "a name with a terminal's codes": ({"\x1b[2J": 3}, "tensor \\x1b[2J", "dtype"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused_by_name(lie: str, tmp_path: Path) -> None:
    header, part, said = LIES[lie]
    error = refusal(write_raw(tmp_path, header))
    assert error.part == part
    assert said in str(error)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**31, 1000, 9])
def test_a_header_longer_than_the_file_is_never_allocated(length: int, tmp_path: Path) -> None:
    folder = write_raw(tmp_path, b"{}", b"", length)
    tracemalloc.start()
    assert refusal(folder).part == "header length"
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 2_000_000


@pytest.mark.parametrize("content", [b"", b"\x01", bytes(7)])
def test_a_file_without_room_for_a_header_is_refused(content: bytes, tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / WEIGHTS).write_bytes(content)
    assert refusal(folder).part == "header length"


def test_whole_numbers_may_lie_in_a_file_but_are_not_read(tmp_path: Path) -> None:
    folder = SafetensorsFolder(make_folder(tmp_path, {"a": torch.ones(2), "positions": torch.arange(4)}))
    assert torch.equal(folder.read("a"), torch.ones(2))
    with pytest.raises(ModelFileError, match=r"tensor positions: expected a type of F32, F16, BF16, found I64"):
        folder.read("positions")


def test_an_unknown_name_is_a_key_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        SafetensorsFolder(make_folder(tmp_path, some_tensors())).read("absent")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path: Path, data: st.DataObject) -> None:
    make_folder(tmp_path, some_tensors())
    content = bytearray((tmp_path / WEIGHTS).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, 400))
        patch = data.draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b"[", b"9", b'"', b"-1", b",", b"F16"]))
        content[at : at + len(patch)] = patch
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    (tmp_path / WEIGHTS).write_bytes(content)
    try:
        folder = SafetensorsFolder(tmp_path)
        for name, record in folder.tensors.items():
            assert tuple(folder.read(name).shape) == record.shape
    except ModelFileError as error:
        assert str(error).isprintable()
