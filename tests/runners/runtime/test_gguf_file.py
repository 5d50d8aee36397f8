"""What a GGUF file gives, and how one that lies about itself is refused."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf_bytes import I32, Q4_0, Claim, Contents, array_field, field_bytes, number_field, text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.runtime.gguf_file import GGUFFile, ModelFileError

ALIGNMENT = "general.alignment"
NAN = struct.pack("<f", float("nan"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of every kind of metadata and several types of tensors, written by the `gguf` package."""
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    fields: tuple[tuple[Callable[..., None], Any], ...] = (
        (writer.add_uint8, 200), (writer.add_int8, -5), (writer.add_uint16, 60000), (writer.add_int16, -3),
        (writer.add_int32, -70000), (writer.add_uint64, 2**40), (writer.add_int64, -(2**40)),
        (writer.add_float32, 0.5), (writer.add_float64, 0.1), (writer.add_bool, True), (writer.add_string, "ü"),
        (writer.add_array, ["a", "", "ü"]), (writer.add_array, [1.5, -2.0]), (writer.add_array, [1, -2]),
    )  # fmt: skip
    for add, value in fields:
        add(f"lab.{add.__name__}.{type(value).__name__}.{value}"[:60], value)
    values = values_written()
    writer.add_tensor("plain", values)
    for name in ("F16", "BF16", "Q8_0", "Q4_1", "Q5_0"):
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    finish(writer)
    return path


def values_written() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((4, 64)).astype(np.float32)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def refusal(path: Path) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        GGUFFile(path)
    assert caught.value.retry is False
    return caught.value


def test_metadata_and_tensors_come_back_as_they_were_written(written: Path) -> None:
    file = GGUFFile(written)
    reader = gguf.GGUFReader(written)
    for key, entry in reader.fields.items():
        if not key.startswith("GGUF."):
            assert file.metadata[key] == entry.contents()
    assert torch.equal(file.read("plain"), torch.from_numpy(values_written()))
    for tensor in reader.tensors:
        read = file.read(tensor.name)
        assert (read.dtype, tuple(read.shape)) == (torch.float32, (4, 64))
        theirs = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(read.numpy(), np.asarray(theirs, np.float32).reshape(4, 64))


def test_what_was_read_may_be_changed_without_touching_the_file(written: Path) -> None:
    file = GGUFFile(written)
    before = written.read_bytes()
    file.read("plain").fill_(0)
    assert torch.equal(file.read("plain"), torch.from_numpy(values_written()))
    assert written.read_bytes() == before


def test_an_unknown_name_is_a_key_error(written: Path) -> None:
    with pytest.raises(KeyError):
        GGUFFile(written).read("absent")


def test_a_file_cut_anywhere_is_refused(written: Path, tmp_path: Path) -> None:
    whole = written.read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [*range(1, 400), *range(400, len(whole) - 32, 97), len(whole) - 33]:
        cut.write_bytes(whole[:size])
        assert "cut.gguf" in str(refusal(cut))


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(written: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(written.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, 1500))
        patch = data.draw(
            st.binary(min_size=1, max_size=12) | st.integers(0, 2**64 - 1).map(lambda n: n.to_bytes(8, "little"))
        )
        content[at : at + len(patch)] = patch
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content)
    try:
        file = GGUFFile(path)
        for name, record in file.tensors.items():
            assert tuple(file.read(name).shape) == record.shape
    except ModelFileError as error:
        assert str(error).isprintable()


LIES = {
    "no file": (Contents(data=b""), "tensor a", "the file ends at"),
    "an old version": (Contents(version=struct.pack("<I", 1)), "version", "found 1"),
    "another byte order": (Contents(version=struct.pack(">I", 3)), "version", "big-endian"),
    "2^60 fields": (Contents(num_fields=2**60), "metadata count", "at most"),
    "more fields than fit": (Contents(num_fields=1000), "metadata count", "room for 1000"),
    "2^60 tensors": (Contents(num_tensors=2**60), "tensor count", "at most"),
    "more tensors than fit": (Contents(num_tensors=1000), "tensor count", "room for 1000"),
    "a key twice": (Contents((number_field("k", 1), number_field("k", 2))), "metadata k", "twice"),
    "a key that is no text": (Contents((field_bytes(b"\xff\xfe", 4, bytes(4)),)), "metadata", "UTF-8"),
    "a text of 2^60 bytes": (Contents((field_bytes("k", 8, text("ab", 2**60)),)), "metadata k", "at most"),
    "a text past the end": (Contents((field_bytes("k", 8, text("ab", 5000)),)), "metadata k", "the file ends at"),
    "a text of 2^64 - 1 bytes": (Contents((field_bytes("k", 8, text("ab", 2**64 - 1)),)), "metadata k", "at most"),
    "an array of 2^60": (Contents((array_field("k", 8, 2**60),)), "metadata k", "at most"),
    "an array past the end": (Contents((array_field("k", 12, 4000),)), "metadata k", "room for 4000"),
    "an array of arrays": (Contents((array_field("k", 9, 1, bytes(12)),)), "metadata k", "array of numbers or text"),
    "an unknown value type": (Contents((field_bytes("k", 13, bytes(8)),)), "metadata k", "value type"),
    "alignment of 0": (Contents((number_field(ALIGNMENT, 0),)), f"metadata {ALIGNMENT}", "power of two"),
    "alignment of 48": (Contents((number_field(ALIGNMENT, 48),)), f"metadata {ALIGNMENT}", "power of two"),
    "alignment NaN": (Contents((field_bytes(ALIGNMENT, 6, NAN),)), f"metadata {ALIGNMENT}", "nan"),
    "alignment as text": (Contents((field_bytes(ALIGNMENT, 8, text("32")),)), f"metadata {ALIGNMENT}", "'32'"),
    "no dimensions": (Contents(claims=(Claim(dims=()),)), "tensor a", "dimensions"),
    "five dimensions": (Contents(claims=(Claim(dims=(1,) * 5),)), "tensor a", "dimensions"),
    "2^32 - 1 dimensions": (Contents(claims=(Claim(num_dims=2**32 - 1),)), "tensor a", "dimensions"),
    "a dimension of 0": (Contents(claims=(Claim(dims=(32, 0)),)), "tensor a", "shape (0, 32)"),
    "a negative dimension": (Contents(claims=(Claim(dims=(2**64 - 1,)),)), "tensor a", "at least 1"),
    "dimensions that overflow": (Contents(claims=(Claim(dims=(2**32,) * 4),)), "tensor a", "the file ends at"),
    "half a block": (Contents(claims=(Claim(dims=(48,), type_number=Q4_0),)), "tensor a", "multiple of 32"),
    "a type not read": (Contents(claims=(Claim(type_number=I32),)), "tensor a", "found I32"),
    "a type nobody knows": (Contents(claims=(Claim(type_number=999),)), "tensor a", "ggml type 999"),
    "an offset off the grid": (Contents(claims=(Claim(dims=(8,), offset=8),)), "tensor a", "multiple of 32"),
    "an offset outside": (Contents(claims=(Claim(offset=2**63),)), "tensor a", "the file ends at"),
    "tensors over each other": (Contents(claims=(Claim(), Claim("b", (8,), offset=96))), "tensor b", "inside of it"),
    "a name twice": (Contents(claims=(Claim(dims=(8,)), Claim(dims=(8,), offset=32))), "tensor a", "found two"),
    "a name that is no text": (Contents(claims=(Claim(b"\xc3"),)), "tensor names", "UTF-8"),
    "a name with a terminal's codes": (Contents(claims=(Claim("\x1b[2J\n", num_dims=9),)), "tensor \\x1b[2J\\n", "9"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused_by_name_without_believing_it(lie: str, tmp_path: Path) -> None:
    contents, part, said = LIES[lie]
    path = contents.write(tmp_path / "m.gguf")
    tracemalloc.start()
    error = refusal(path)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.part == part
    assert said in str(error)
    assert str(error).isprintable()
    assert most_bytes < 2_000_000


def test_the_honest_file_that_the_lies_start_from_is_read(tmp_path: Path) -> None:
    file = GGUFFile(Contents((number_field("k", 7),)).write(tmp_path / "m.gguf"))
    assert file.metadata == {"k": 7}
    assert file.read("a").numpy().tobytes() == bytes(range(128))


def test_another_alignment_is_followed(tmp_path: Path) -> None:
    file = GGUFFile(Contents((number_field(ALIGNMENT, 64),), alignment=64).write(tmp_path / "m.gguf"))
    assert file.read("a").numpy().tobytes() == bytes(range(128))


@pytest.mark.parametrize(("content", "part"), [(b"", "file"), (b"GGU", "magic"), (b"PK\x03\x04" + b"0" * 40, "magic")])
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert refusal(path).part == part


def test_a_path_that_holds_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for name in ("absent.gguf", "pipe.gguf"):
        assert str(refusal(tmp_path / name)).startswith(f"{name}: file")


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        (field_bytes("k", 6, NAN), float),
        (field_bytes("k", 6, struct.pack("<f", float("inf"))), float),
        (field_bytes("k", 8, text("1")), int),
        (field_bytes("k", 7, b"\x01"), int),
        (number_field("other", 1), int),
        (array_field("k", 4, 0), str),
    ],
)
def test_metadata_of_another_kind_is_refused_where_it_is_needed(tmp_path: Path, field: bytes, kind: type) -> None:
    file = GGUFFile(Contents((field,)).write(tmp_path / "m.gguf"))
    with pytest.raises(ModelFileError) as caught:
        file.require("k", kind)
    assert caught.value.part == "metadata k"


def write_split(folder: Path) -> list[Path]:
    writer = gguf.GGUFWriter(folder / "m.gguf", "llama", split_max_tensors=2)
    for index in range(5):
        writer.add_tensor(f"t{index}", np.full((2, 32), index, np.float32))
    finish(writer)
    return sorted(folder.glob("*.gguf"))


def test_a_split_model_is_one_model(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    assert len(parts) == 3
    file = GGUFFile(parts[0])
    assert sorted(file.tensors) == [f"t{index}" for index in range(5)]
    for index in range(5):
        assert torch.equal(file.read(f"t{index}"), torch.full((2, 32), float(index)))


def test_a_split_model_is_opened_by_its_first_file(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    assert "00001-of-00003" in str(refusal(parts[1]))
    renamed = parts[0].rename(tmp_path / "model.gguf")
    assert "00001-of-00003" in str(refusal(renamed))


def test_a_split_model_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    parts[2].unlink()
    assert parts[2].name in str(refusal(parts[0]))


def test_a_split_model_with_a_file_in_the_wrong_place_is_refused(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    parts[2].write_bytes(parts[1].read_bytes())
    assert refusal(parts[0]).part == "metadata split.no"
