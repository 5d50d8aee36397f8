"""The header of one safetensors file: what it holds and where, checked against the file's own length.

A header that claims more than the file has is refused before anything is allocated. The checks are the format's own
(no gap, no overlap, bytes that fit type and shape) plus a smaller limit on the header. It reads no values.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any

from runners.runtime.json_file import parse_json_object
from runners.runtime.model_file import ModelFileError, TensorRecord, shown

READABLE = ("F32", "F16", "BF16")
"""Types whose values can be read."""

_BYTES_OF = {
    "F32": 4, "F16": 2, "BF16": 2,
    "BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "I64": 8,
}  # fmt: skip
"""Bytes of one value. Whole numbers may lie in a file (a buffer of positions) as long as nobody reads them; other
types, FP8 among them, would be weights: such a file is refused at once."""

MAX_HEADER_BYTES = 1 << 24
"""Real headers take some 100 bytes a tensor; a million tensors are no model."""

_MAX_DIMS, _MAX_DIM = 8, 1 << 40


def read_header(path: Path) -> dict[str, TensorRecord]:
    """The tensors of a file by name. Raises ModelFileError for a header that is malformed or doesn't fit the file."""
    data, file_bytes = _header_bytes(path)
    fields = parse_json_object(path, "header", data)
    _check_notes(path, fields.pop("__metadata__", {}))
    base = 8 + len(data)
    records = [_record(path, name, entry, base) for name, entry in fields.items()]
    records.sort(key=lambda record: (record.start, record.num_bytes))
    at = base
    for record in records:
        if record.start != at:
            part = f"tensor {shown(record.name)}"
            raise ModelFileError(path, part, f"bytes from offset {at - base} on", f"from {record.start - base}")
        at += record.num_bytes
    if at != file_bytes:
        raise ModelFileError(path, "data", f"{at} bytes, as the header says", f"the file ends at {file_bytes}")
    return {record.name: record for record in records}


def _header_bytes(path: Path) -> tuple[bytes, int]:
    """(the header's JSON, the file's length)."""
    try:
        with path.open("rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else None
            if length is None or length > file_bytes - 8:
                found = f"the file ends at {file_bytes}"
                raise ModelFileError(path, "header length", "an 8-byte number and that many bytes", found)
            if length > MAX_HEADER_BYTES:
                raise ModelFileError(path, "header length", f"at most {MAX_HEADER_BYTES}", str(length))
            return file.read(length), file_bytes
    except OSError as error:
        raise ModelFileError(path, "file", "a readable file", error.strerror or str(error)) from error


def _check_notes(path: Path, notes: object) -> None:
    if not isinstance(notes, dict) or not all(isinstance(value, str) for value in notes.values()):
        raise ModelFileError(path, "header __metadata__", "an object of texts", type(notes).__name__)


def _record(path: Path, name: str, entry: Any, base: int) -> TensorRecord:
    part = f"tensor {shown(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(path, part, "dtype, shape and data_offsets", shown(repr(entry)))
    type_name = entry["dtype"]
    if not isinstance(type_name, str) or type_name not in _BYTES_OF:
        raise ModelFileError(path, part, f"a type of {', '.join(READABLE)}", shown(str(type_name)))
    shape = _whole_numbers(entry["shape"], 1, _MAX_DIM)
    if shape is None or len(shape) > _MAX_DIMS:
        raise ModelFileError(path, part, f"a shape of at most {_MAX_DIMS} numbers ≥ 1", shown(repr(entry["shape"])))
    offsets = _whole_numbers(entry["data_offsets"], 0, 1 << 63)
    num_bytes = math.prod(shape) * _BYTES_OF[type_name]
    if offsets is None or len(offsets) != 2 or offsets[1] - offsets[0] != num_bytes:
        expected = f"data_offsets of {num_bytes} bytes for {type_name} {list(shape)}"
        raise ModelFileError(path, part, expected, shown(repr(entry["data_offsets"])))
    return TensorRecord(name, shape, type_name, base + offsets[0], num_bytes)


def _whole_numbers(value: object, least: int, most: int) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(item) is int and least <= item <= most for item in value):
        return None
    return tuple(value)
