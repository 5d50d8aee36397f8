"""A model's folder in Hugging Face layout: `config.json` beside one safetensors file, or several with an index.

Every shard's header is checked on opening; tensors are read one at a time from the mapped file. It believes no path in
an index: a shard lies in the folder itself. It does not know what a model needs (the loader does), and imports torch
only to read.

Layout: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runners.runtime.json_file import read_json_object
from runners.runtime.model_file import ModelFileError, TensorRecord, shown
from runners.runtime.safetensors_header import READABLE, read_header

if TYPE_CHECKING:
    import torch

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


class SafetensorsFolder:
    """An open folder: `config` and `generation_config` (empty where absent), `tensors` by name, `read(name)`."""

    def __init__(self, path: Path | str) -> None:
        """Read config.json and every shard's header. Raises ModelFileError naming the file and part that is wrong."""
        self.path = Path(path)
        self.config: dict[str, Any] = read_json_object(folder_file(self.path, "config.json"))
        self.generation_config: dict[str, Any] = {}
        if (self.path / "generation_config.json").exists():
            self.generation_config = read_json_object(folder_file(self.path, "generation_config.json"))
        self._open: dict[Path, Any] = {}  # each shard's mapped file, from its first read on
        self._shards = _find_tensors(self.path)
        self.tensors: Mapping[str, TensorRecord] = {name: record for name, (_, record) in self._shards.items()}

    def read(self, name: str) -> torch.Tensor:
        """One tensor as float32 in its record's shape. Raises KeyError for an unknown name, ModelFileError for a type
        that can't be read. The caller owns the values: they share nothing with the mapped file."""
        shard, record = self._shards[name]
        if record.type_name not in READABLE:
            raise ModelFileError(shard, f"tensor {shown(name)}", f"a type of {', '.join(READABLE)}", record.type_name)
        # Both here, not above: importing torch takes seconds, and who reads the tokenizer alone needs none of it.
        import torch  # noqa: PLC0415
        from safetensors import SafetensorError, safe_open  # noqa: PLC0415

        try:
            if shard not in self._open:
                self._open[shard] = safe_open(shard, framework="pt")
            values: torch.Tensor = self._open[shard].get_tensor(name).to(torch.float32, copy=True)
        except (OSError, SafetensorError) as error:
            raise ModelFileError(shard, f"tensor {shown(name)}", "readable values", str(error)) from error
        return values


def folder_file(folder: Path, name: str) -> Path:
    """The regular file of that name in a model's folder. Raises ModelFileError if it is absent, or a link that leads
    out of the folder (but for the hub's own cache, whose snapshots link to the blobs beside them)."""
    path = folder / name
    if not path.is_file():
        raise ModelFileError(
            folder, f"file {shown(name)}", "a regular file", "something else" if path.exists() else "nothing"
        )
    target, home = path.resolve(), folder.resolve()
    allowed = [home, home.parents[1] / "blobs"] if home.parent.name == "snapshots" else [home]
    if not any(target.is_relative_to(place) for place in allowed):
        raise ModelFileError(folder, f"file {shown(name)}", "a file in the folder", f"a link to {shown(str(target))}")
    return path


def _find_tensors(folder: Path) -> dict[str, tuple[Path, TensorRecord]]:
    """Shard and record of each tensor. A single file wins over an index, as in transformers."""
    if (folder / _SINGLE).exists():
        single = folder_file(folder, _SINGLE)
        return {name: (single, record) for name, record in read_header(single).items()}
    if not (folder / _INDEX).exists():
        raise ModelFileError(folder, "weights", f"{_SINGLE} or {_INDEX}", _weights_found(folder))
    index = folder_file(folder, _INDEX)
    shards = _weight_map(index)
    headers = {shard: (path := folder_file(folder, shard), read_header(path)) for shard in sorted(set(shards.values()))}
    found = {}
    for name, shard in shards.items():
        path, header = headers[shard]
        if name not in header:
            raise ModelFileError(path, f"tensor {shown(name)}", f"in this shard, as {_INDEX} says", "nothing")
        found[name] = (path, header[name])
    return found


def _weight_map(index: Path) -> dict[str, str]:
    """The index's shard name of each tensor, each the name of a file and no path."""
    shards = read_json_object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ModelFileError(index, "weight_map", "an object of shard names", shown(repr(shards)))
    for name, shard in shards.items():
        if not isinstance(shard, str) or not _is_plain_name(shard):
            part = f"weight_map.{shown(name)}"
            raise ModelFileError(index, part, "the name of a .safetensors file in the folder", shown(repr(shard)))
    return shards


def _is_plain_name(shard: str) -> bool:
    safe = shard.isprintable() and not any(char in shard for char in "/\\:") and not shard.startswith(".")
    return safe and shard.endswith(".safetensors") and len(shard.encode("utf-8", "replace")) <= 255


def _weights_found(folder: Path) -> str:
    endings = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
    others = sorted(child.name for child in folder.iterdir() if child.suffix in endings)
    return shown(", ".join(others)) or "no weights"
