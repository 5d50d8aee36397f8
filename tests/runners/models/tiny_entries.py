"""Registered models of a few bytes, for tests of how models get onto a disk: nobody looks inside these files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from runners.models import HubSource, LocalSource, ModelEntry, ModelFile, WheelSource

CONTENT = b"tiny model " * 1000
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FOLDER = {"config.json": b'{"model_type": "llama"}', "model.safetensors": CONTENT, "tokenizer.json": b"{}"}
SHAPE: dict[str, Any] = {
    "layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 128, "vocab_size": 259,
    "tied_embeddings": True, "max_model_len": 2048, "parameters": 100_000,
}  # fmt: skip


def entry(source: WheelSource | HubSource | LocalSource, files: dict[str, bytes], **changes: Any) -> ModelEntry:
    listed = [ModelFile(name=name, bytes=len(data), sha256=sha256(data)) for name, data in files.items()]
    kind = "gguf" if len(files) == 1 else "safetensors"
    return ModelEntry.from_dict(
        {
            "name": "tiny",
            "format": kind,
            "files": [file.model_dump() for file in listed],
            "source": source.model_dump(),
            "shape": SHAPE,
            **changes,
        }
    )


def wheel_model(**changes: Any) -> ModelEntry:
    source = WheelSource(requirement="tiny-model==1.0", member="tiny_model/tiny.gguf", wheel_bytes=2000)
    return entry(source, {"tiny.gguf": CONTENT}, **changes)


def local_file(path: Path, **changes: Any) -> ModelEntry:
    return entry(LocalSource(path=str(path)), {path.name: CONTENT}, **changes)


def local_folder(path: Path, **changes: Any) -> ModelEntry:
    return entry(LocalSource(path=str(path)), FOLDER, **changes)


def hub_model(files: dict[str, bytes] = FOLDER, **changes: Any) -> ModelEntry:
    return entry(HubSource(repo="owner/tiny", revision=COMMIT), files, **changes)


def write_files(folder: Path, files: dict[str, bytes] = FOLDER) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def left_in(directory: Path) -> set[str]:
    """What a fetch left, but for locks and remembered hashes."""
    return {path.name for path in directory.iterdir() if path.name != ".checked" and not path.name.endswith(".lock")}
