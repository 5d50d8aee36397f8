"""GGUF files written field by field, so that a test can say what a writer would refuse to."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

F32, I32, Q4_0 = 0, 26, 2


def text(value: str | bytes, length: int | None = None) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data) if length is None else length) + data


def field_bytes(key: str | bytes, value_type: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", value_type) + value


def number_field(key: str, value: int) -> bytes:
    return field_bytes(key, 4, struct.pack("<I", value))


def array_field(key: str, item_type: int, count: int, items: bytes = b"") -> bytes:
    return field_bytes(key, 9, struct.pack("<IQ", item_type, count) + items)


@dataclass(frozen=True)
class Claim:
    """One tensor of 32 float32 values unless told otherwise; `dims` innermost first, as the file has them."""

    name: str | bytes = "a"
    dims: tuple[int, ...] = (32,)
    type_number: int = F32
    offset: int = 0
    num_dims: int | None = None

    def bytes(self) -> bytes:
        count = len(self.dims) if self.num_dims is None else self.num_dims
        dims = struct.pack(f"<{len(self.dims)}Q", *self.dims)
        return text(self.name) + struct.pack("<I", count) + dims + struct.pack("<IQ", self.type_number, self.offset)


@dataclass(frozen=True)
class Contents:
    """A whole file: one tensor and 128 bytes of data unless told otherwise."""

    fields: tuple[bytes, ...] = ()
    claims: tuple[Claim, ...] = field(default=(Claim(),))
    data: bytes = bytes(range(128))
    alignment: int = 32
    num_fields: int | None = None
    num_tensors: int | None = None
    version: bytes = struct.pack("<I", 3)

    def write(self, path: Path) -> Path:
        num_tensors = len(self.claims) if self.num_tensors is None else self.num_tensors
        num_fields = len(self.fields) if self.num_fields is None else self.num_fields
        header = b"GGUF" + self.version + struct.pack("<QQ", num_tensors, num_fields) + b"".join(self.fields)
        header += b"".join(claim.bytes() for claim in self.claims)
        path.write_bytes(header + bytes(-len(header) % self.alignment) + self.data)
        return path
