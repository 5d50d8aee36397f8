"""The GGUF container: metadata and where each tensor's bytes lie, from one memory-mapped file.

Reads versions 2 and 3, little-endian. It does not turn bytes into numbers (quantize/) nor know what a model needs
(loader.py), and imports no torch: the server's tokenizer reads its vocabulary through it. It replaces
`gguf.GGUFReader`, which spends two seconds on a vocabulary of 49,152 tokens; the tests write files with `gguf`.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runners.runtime.model_file import ModelFileError, TensorRecord
from runners.runtime.quantize.dequantize import dequantize

if TYPE_CHECKING:
    import torch

__all__ = ["BLOCKS", "TENSOR_TYPES", "GGUFFile", "ModelFileError"]

_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9

TENSOR_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 8: "Q8_0", 30: "BF16"}
"""Tensor types that can be read, by their number in the file."""

BLOCKS = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34)}
"""(values, bytes) of one block of each type."""


class GGUFFile:
    """An open GGUF file: `metadata` by key, `tensors` by name, `raw(name)` the bytes of one without a copy."""

    def __init__(self, path: Path | str) -> None:
        """Read the header. Raises ModelFileError if it is no GGUF file, is cut short, or holds an unknown type."""
        self.path = Path(path)
        try:
            with self.path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ModelFileError(self.path, "file", "a readable GGUF file", str(error)) from error
        header = _Cursor(self.path, self._bytes)
        num_tensors, num_fields = _read_preamble(header)
        self.metadata: dict[str, Any] = {}
        for _ in range(num_fields):
            key = header.string("metadata")
            self.metadata[key] = header.value(key, header.number("<I", key))
        records = [_read_record(header) for _ in range(num_tensors)]
        alignment = int(self.metadata.get("general.alignment", 32))
        base = -(-header.at // max(alignment, 1)) * max(alignment, 1)
        self.tensors: Mapping[str, TensorRecord] = {
            name: self._place(name, shape, type_number, base + offset) for name, shape, type_number, offset in records
        }

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor as a read-only view, (num_bytes,)."""
        record = self.tensors[name]
        return np.frombuffer(self._bytes, np.uint8, count=record.num_bytes, offset=record.start)

    def read(self, name: str) -> torch.Tensor:
        """One tensor as float32 in its record's shape. Raises KeyError for an unknown name."""
        # Here, not above: importing torch takes seconds, and who reads the tokenizer alone needs none of it.
        import torch  # noqa: PLC0415

        record = self.tensors[name]
        return torch.from_numpy(dequantize(self.raw(name), record.type_name, record.shape))

    def require(self, key: str, kind: type) -> Any:
        """The metadata value of a key, of the given Python type. Raises ModelFileError if absent or another type."""
        value = self.metadata.get(key)
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            found = "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
            raise ModelFileError(self.path, f"metadata {key}", kind.__name__, found)
        return value

    def _place(self, name: str, shape: tuple[int, ...], type_number: int, start: int) -> TensorRecord:
        part = f"tensor {name}"
        type_name = TENSOR_TYPES.get(type_number)
        if type_name is None:
            allowed = ", ".join(BLOCKS)
            raise ModelFileError(self.path, part, f"a type of {allowed}", f"ggml type {type_number}")
        values, block_bytes = BLOCKS[type_name]
        if not shape or shape[-1] % values:
            raise ModelFileError(self.path, part, f"rows of a multiple of {values} values", f"shape {shape}")
        num_bytes = int(np.prod(shape, dtype=object)) // values * block_bytes
        if start + num_bytes > len(self._bytes):
            raise ModelFileError(
                self.path, part, f"{num_bytes} bytes at offset {start}", f"the file ends at {len(self._bytes)}"
            )
        return TensorRecord(name, shape, type_name, start, num_bytes)


class _Cursor:
    """Reads values one after another, and names the part that the file was cut short in."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at = path, data, 0

    def take(self, count: int, part: str) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise ModelFileError(
                self.path, part, f"{count} bytes at offset {self.at}", f"the file ends at {len(self.data)}"
            )
        chunk = self.data[self.at : end]
        self.at = end
        return chunk

    def number(self, code: str, part: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code), part))[0]

    def string(self, part: str) -> str:
        try:
            return self.take(self.number("<Q", part), part).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(self.path, part, "UTF-8 text", str(error)) from error

    def value(self, key: str, value_type: int) -> Any:
        part = f"metadata {key}"
        if value_type in _SCALARS:
            return self.number(_SCALARS[value_type], part)
        if value_type == _STRING:
            return self.string(part)
        if value_type == _ARRAY:
            return self._array(part)
        raise ModelFileError(self.path, part, "a GGUF value type 0 … 12", str(value_type))

    def _array(self, part: str) -> list[Any]:
        item_type, count = self.number("<I", part), self.number("<Q", part)
        if item_type == _STRING:
            return [self.string(part) for _ in range(count)]
        if item_type not in _SCALARS:
            raise ModelFileError(self.path, part, "an array of numbers or text", f"value type {item_type}")
        code = _SCALARS[item_type]
        data = self.take(count * struct.calcsize(code), part)
        return [item for (item,) in struct.iter_unpack(code, data)]


def _read_preamble(header: _Cursor) -> tuple[int, int]:
    """(number of tensors, number of metadata fields)."""
    magic = header.take(4, "magic")
    if magic != b"GGUF":
        raise ModelFileError(header.path, "magic", "b'GGUF'", repr(magic))
    version = header.number("<I", "version")
    if version not in (2, 3):
        raise ModelFileError(header.path, "version", "2 or 3, little-endian", str(version))
    return header.number("<Q", "tensor count"), header.number("<Q", "metadata count")


def _read_record(header: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """(name, shape, type, offset). The file lists the innermost dimension first; here it comes last."""
    name = header.string("tensor names")
    part = f"tensor {name}"
    num_dims = header.number("<I", part)
    if num_dims > 4:
        raise ModelFileError(header.path, part, "at most 4 dimensions", str(num_dims))
    dims = [header.number("<Q", part) for _ in range(num_dims)]
    return name, tuple(reversed(dims)), header.number("<I", part), header.number("<Q", part)
