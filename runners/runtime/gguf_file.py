"""A model as GGUF: metadata, and tensors by name out of one memory-mapped file, or of the several of a split model.

Every tensor's type, shape and place is checked on opening; values are computed when one is read. It does not know
what a model needs (the loader does), and imports torch only to read: the server's tokenizer reads its vocabulary
through it. The header itself is gguf_header.py's, turning bytes into numbers quantize/'s.
"""

from __future__ import annotations

import math
import mmap
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runners.runtime.gguf_header import Header, TensorClaim, map_file, read_header
from runners.runtime.model_file import ModelFileError, TensorRecord, shown
from runners.runtime.quantize.block_types import BLOCKS, REFUSED_TYPES, TENSOR_TYPES
from runners.runtime.quantize.dequantize import dequantize

if TYPE_CHECKING:
    import torch

__all__ = ["BLOCKS", "TENSOR_TYPES", "GGUFFile", "ModelFileError"]

_DEFAULT_ALIGNMENT, _MAX_DIM = 32, 1 << 40
_SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


class GGUFFile:
    """An open GGUF model: `metadata` by key, `tensors` by name, `raw(name)` the bytes of one without a copy.

    Of a split model (`…-00001-of-00003.gguf`) open the first file: the others are found beside it, and their tensors
    count as its own. A record's `start` is counted in the tensor's own file.
    """

    def __init__(self, path: Path | str) -> None:
        """Read the headers. Raises ModelFileError if it is no GGUF file, is cut short, or holds an unknown type."""
        self.path = Path(path)
        self._bytes: dict[str, mmap.mmap] = {}
        found: dict[str, TensorRecord] = {}
        self.metadata: dict[str, Any] = {}
        paths = [self.path]
        for number, part_path in enumerate(paths):
            data = map_file(part_path)
            header = read_header(part_path, data)
            if number == 0:
                self.metadata = header.metadata
                paths += _other_parts(self.path, header)
            elif header.metadata.get("split.no") != number:
                told = shown(str(header.metadata.get("split.no")))
                raise ModelFileError(part_path, "metadata split.no", str(number), told)
            for record in _place_tensors(part_path, header, len(data)):
                if record.name in found:
                    part = f"tensor {shown(record.name)}"
                    raise ModelFileError(part_path, part, "in one file of the split model", "in two")
                found[record.name] = record
                self._bytes[record.name] = data
        self._check_total(len(found))
        self.tensors: Mapping[str, TensorRecord] = found

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor as a read-only view, (num_bytes,). Raises KeyError for an unknown name."""
        record = self.tensors[name]
        return np.frombuffer(self._bytes[name], np.uint8, count=record.num_bytes, offset=record.start)

    def read(self, name: str) -> torch.Tensor:
        """One tensor as float32 in its record's shape. Raises KeyError for an unknown name."""
        # Here, not above: importing torch takes seconds, and who reads the tokenizer alone needs none of it.
        import torch  # noqa: PLC0415

        record = self.tensors[name]
        return torch.from_numpy(dequantize(self.raw(name), record.type_name, record.shape))

    def require(self, key: str, kind: type) -> Any:
        """The metadata value of a key, of the given Python type. Raises ModelFileError if absent or another type.

        A whole number will do for a float; NaN and infinity won't.
        """
        value = self.metadata.get(key)
        if kind is float and type(value) is int:
            value = float(value)
        fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            found = "nothing" if value is None else f"{type(value).__name__} {shown(repr(value), 40)}"
            expected = "a finite number" if kind is float else kind.__name__
            raise ModelFileError(self.path, f"metadata {key}", expected, found)
        return value

    def _check_total(self, num_tensors: int) -> None:
        told = self.metadata.get("split.tensors.count", num_tensors)
        if told != num_tensors:
            expected = f"{shown(str(told))} in all files"
            raise ModelFileError(self.path, "metadata split.tensors.count", expected, str(num_tensors))


def _other_parts(path: Path, header: Header) -> list[Path]:
    """The further files of a split model, none for a whole one. Raises ModelFileError if this isn't its first."""
    count = header.metadata.get("split.count", 1)
    if type(count) is not int or not 0 <= count <= 99_999:
        raise ModelFileError(path, "metadata split.count", "1 … 99999", shown(repr(count)))
    if count <= 1:
        return []
    name = _SPLIT_NAME.fullmatch(path.name)
    first = f"the first of {count} files, …-00001-of-{count:05d}.gguf"
    if name is None or int(name["count"]) != count or int(name["number"]) != 1 or header.metadata.get("split.no") != 0:
        raise ModelFileError(path, "split model", first, "another name or number")
    return [path.with_name(f"{name['stem']}-{number:05d}-of-{count:05d}.gguf") for number in range(2, count + 1)]


def _place_tensors(path: Path, header: Header, file_bytes: int) -> list[TensorRecord]:
    """The records of one file's tensors. Raises ModelFileError for one that lies outside of it or over another."""
    alignment = header.metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise ModelFileError(path, "metadata general.alignment", "a power of two up to 2^20", shown(repr(alignment)))
    base = -(-header.num_bytes // alignment) * alignment
    records = [_place(path, claim, base, alignment, file_bytes) for claim in header.tensors]
    in_order = sorted(records, key=lambda record: record.start)
    for before, after in pairwise(in_order):
        if before.start + before.num_bytes > after.start:
            expected = f"an offset past tensor {shown(before.name)}"
            raise ModelFileError(path, f"tensor {shown(after.name)}", expected, f"{after.start - base}, inside of it")
    return records


def _place(path: Path, claim: TensorClaim, base: int, alignment: int, file_bytes: int) -> TensorRecord:
    part = f"tensor {shown(claim.name)}"
    type_name = TENSOR_TYPES.get(claim.type_number)
    if type_name is None:
        found = REFUSED_TYPES.get(claim.type_number, f"ggml type {claim.type_number}")
        raise ModelFileError(path, part, f"a type of {', '.join(BLOCKS)}", found)
    values, block_bytes = BLOCKS[type_name]
    if not all(1 <= dim <= _MAX_DIM for dim in claim.shape) or claim.shape[-1] % values:
        expected = f"rows of a multiple of {values} values" if values > 1 else "dimensions of at least 1"
        raise ModelFileError(path, part, expected, f"shape {claim.shape}")
    if claim.offset % alignment:
        raise ModelFileError(path, part, f"an offset that is a multiple of {alignment}", str(claim.offset))
    num_bytes = math.prod(claim.shape) // values * block_bytes
    start = base + claim.offset
    if start + num_bytes > file_bytes:
        raise ModelFileError(path, part, f"{num_bytes} bytes at offset {start}", f"the file ends at {file_bytes}")
    return TensorRecord(claim.name, claim.shape, type_name, start, num_bytes)
