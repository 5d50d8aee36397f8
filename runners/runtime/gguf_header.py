"""The header of one GGUF file: its metadata, and what it says of its tensors, read with suspicion.

Versions 2 and 3, little-endian. Whatever count or length it claims is held against the bytes that are there before
anything is allocated for it. It does not check where tensors lie (gguf_file.py) nor what keys mean. It replaces
`gguf.GGUFReader`, which spends two seconds on a vocabulary of 49,152 tokens; the tests write files with `gguf`.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.runtime.model_file import ModelFileError, shown

_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9

MAX_NAME_BYTES = 1 << 16
"""A key's or a tensor's name."""

MAX_TEXT_BYTES = 1 << 24
"""A text in the metadata; chat templates have up to some 30 thousand characters."""

MAX_ITEMS = 1 << 22
"""Items of one array in the metadata; the largest published vocabularies have some 500 thousand merges."""

MAX_FIELDS, MAX_TENSORS, MAX_DIMS = 1 << 16, 1 << 20, 4


@dataclass(frozen=True, slots=True)
class TensorClaim:
    """What a header says of a tensor: `shape` innermost last, `type_number` ggml's, `offset` from the data's start."""

    name: str
    shape: tuple[int, ...]
    type_number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Header:
    """`metadata` by key, the tensors in the file's order, and `num_bytes`, where the header ends."""

    metadata: dict[str, Any]
    tensors: tuple[TensorClaim, ...]
    num_bytes: int


def map_file(path: Path) -> mmap.mmap:
    """A regular file's bytes, read-only. Raises ModelFileError for anything else."""
    if path.exists() and not path.is_file():  # opening a named pipe would wait for its writer
        raise ModelFileError(path, "file", "a regular file", "something else")
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file, or a name with a NUL
        raise ModelFileError(path, "file", "a readable GGUF file", str(error)) from error


def read_header(path: Path, data: mmap.mmap) -> Header:
    """The header at the start of a file's bytes. Raises ModelFileError naming the part that is wrong."""
    cursor = _Cursor(path, data)
    num_tensors, num_fields = _read_preamble(cursor)
    cursor.check_count("metadata count", num_fields, MAX_FIELDS, 13)
    metadata: dict[str, Any] = {}
    for _ in range(num_fields):
        key = cursor.string("metadata", MAX_NAME_BYTES)
        part = f"metadata {shown(key)}"
        if key in metadata:
            raise ModelFileError(path, part, "one value", "the key twice")
        metadata[key] = cursor.value(part, cursor.number("<I", part))
    cursor.check_count("tensor count", num_tensors, MAX_TENSORS, 32)
    claims: dict[str, TensorClaim] = {}
    for _ in range(num_tensors):
        claim = _read_claim(cursor)
        if claim.name in claims:
            raise ModelFileError(path, f"tensor {shown(claim.name)}", "one tensor of that name", "two")
        claims[claim.name] = claim
    return Header(metadata, tuple(claims.values()), cursor.at)


class _Cursor:
    """Reads values one after another, and names the part that the file was cut short in."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at = path, data, 0

    def take(self, count: int, part: str) -> bytes:
        end = self.at + count
        if end > len(self.data):
            found = f"the file ends at {len(self.data)}"
            raise ModelFileError(self.path, part, f"{count} bytes at offset {self.at}", found)
        chunk = self.data[self.at : end]
        self.at = end
        return chunk

    def check_count(self, part: str, count: int, most: int, least_bytes: int) -> None:
        """Refuse a count of things, each of at least so many bytes, that is absurd or that the file has no room for."""
        if count > most:
            raise ModelFileError(self.path, part, f"at most {most}", str(count))
        if count * least_bytes > len(self.data) - self.at:
            found = f"the file ends at {len(self.data)}"
            raise ModelFileError(self.path, part, f"room for {count} at offset {self.at}", found)

    def number(self, code: str, part: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code), part))[0]

    def string(self, part: str, most_bytes: int) -> str:
        length = self.number("<Q", part)
        self.check_count(part, length, most_bytes, 1)
        try:
            return self.take(length, part).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(self.path, part, "UTF-8 text", str(error)) from error

    def value(self, part: str, value_type: int) -> Any:
        if value_type in _SCALARS:
            return self.number(_SCALARS[value_type], part)
        if value_type == _STRING:
            return self.string(part, MAX_TEXT_BYTES)
        if value_type == _ARRAY:
            return self._array(part)
        raise ModelFileError(self.path, part, "a GGUF value type 0 … 12", str(value_type))

    def _array(self, part: str) -> list[Any]:
        item_type, count = self.number("<I", part), self.number("<Q", part)
        if item_type == _STRING:
            self.check_count(part, count, MAX_ITEMS, 8)
            return [self.string(part, MAX_TEXT_BYTES) for _ in range(count)]
        if item_type not in _SCALARS:
            raise ModelFileError(self.path, part, "an array of numbers or text", f"value type {item_type}")
        code = _SCALARS[item_type]
        self.check_count(part, count, MAX_ITEMS, struct.calcsize(code))
        data = self.take(count * struct.calcsize(code), part)
        return [item for (item,) in struct.iter_unpack(code, data)]


def _read_preamble(cursor: _Cursor) -> tuple[int, int]:
    """(number of tensors, number of metadata fields)."""
    magic = cursor.take(4, "magic")
    if magic != b"GGUF":
        raise ModelFileError(cursor.path, "magic", "b'GGUF'", repr(magic))
    version = cursor.number("<I", "version")
    if version not in (2, 3):
        found = "a big-endian file" if version in (2 << 24, 3 << 24) else str(version)
        raise ModelFileError(cursor.path, "version", "2 or 3, little-endian", found)
    return cursor.number("<Q", "tensor count"), cursor.number("<Q", "metadata count")


def _read_claim(cursor: _Cursor) -> TensorClaim:
    """The file lists the innermost dimension first; here it comes last."""
    name = cursor.string("tensor names", MAX_NAME_BYTES)
    part = f"tensor {shown(name)}"
    num_dims = cursor.number("<I", part)
    if not 1 <= num_dims <= MAX_DIMS:
        raise ModelFileError(cursor.path, part, f"1 … {MAX_DIMS} dimensions", str(num_dims))
    dims = [cursor.number("<Q", part) for _ in range(num_dims)]
    return TensorClaim(name, tuple(reversed(dims)), cursor.number("<I", part), cursor.number("<Q", part))
