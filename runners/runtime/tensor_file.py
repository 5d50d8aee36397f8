"""Tensors by name out of a model's files, whatever their format: a GGUF file or a folder in Hugging Face layout.

Values come as float32. What the names mean and which of them a model needs is the loader's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runners.runtime.gguf_file import GGUFFile
from runners.runtime.model_file import ModelFileError, TensorRecord
from runners.runtime.safetensors_folder import SafetensorsFolder

if TYPE_CHECKING:
    import torch

__all__ = ["GGUFFile", "ModelFileError", "SafetensorsFolder", "TensorFile", "TensorRecord", "open_tensor_file"]


class TensorFile(Protocol):
    """An open model: `path` is the file or folder, `tensors` what it holds, by name."""

    path: Path
    tensors: Mapping[str, TensorRecord]

    def read(self, name: str) -> torch.Tensor:
        """One tensor as float32 in its record's shape, read from the mapped file now.

        Raises KeyError for a name that isn't in `tensors`, ModelFileError for a type that can't be read.
        """


def open_tensor_file(path: Path | str) -> GGUFFile | SafetensorsFolder:
    """The model at a path: a `.gguf` file (the first one of a split model), or a folder in Hugging Face layout.

    Reads and checks headers alone. Raises ModelFileError naming the part that can't be used.
    """
    path = Path(path)
    return SafetensorsFolder(path) if path.is_dir() else GGUFFile(path)
