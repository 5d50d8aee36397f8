"""What a model file must hold, and what an unusable one is told."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
import torch
from tiny_model import TinyModel, random_tensors, write_tiny_model

from runners.runtime.loading.weights import open_model
from runners.runtime.tensor_file import ModelFileError


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_loads_with_its_shape_and_weights(tmp_path: Path, tied: bool) -> None:
    model = TinyModel(tied_embeddings=tied)
    config, weights = open_model(write_tiny_model(tmp_path / "m.gguf", model))
    assert (config.num_layers, config.hidden_size, config.num_heads, config.num_kv_heads) == (2, 64, 4, 2)
    assert (config.head_dim, config.ffn_size, config.max_model_len, config.tied_embeddings) == (16, 96, 2048, tied)
    written = random_tensors(model)
    assert torch.equal(weights.layer(1).ffn.down, torch.from_numpy(written["blk.1.ffn_down.weight"]))
    parts = [torch.from_numpy(written[f"blk.0.attn_{part}.weight"]) for part in "qkv"]
    assert torch.equal(weights.layer(0).qkv, torch.cat(parts))
    assert torch.equal(weights.head(), weights.embedding()) == tied


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", without="blk.1.ffn_up.weight")
    with pytest.raises(ModelFileError, match=r"m\.gguf: tensor blk\.1\.ffn_up\.weight: .*found nothing"):
        open_model(path)


def test_a_wrong_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_tiny_model(path)
    write_patched(path, {"llama.feed_forward_length": 128})
    with pytest.raises(ModelFileError, match=r"ffn_gate\.weight: expected shape \(128, 64\), found shape \(96, 64\)"):
        open_model(path)


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "mamba")
    write_and_close(writer)
    with pytest.raises(ModelFileError, match=r"general\.architecture: expected 'llama' or .*, found 'mamba'"):
        open_model(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.attention.head_count", 0),
        ("llama.attention.head_count_kv", 3),
        ("llama.attention.head_count_kv", 0),
        ("llama.rope.dimension_count", 8),
        ("llama.block_count", 0),
    ],
)
def test_an_impossible_shape_is_refused(tmp_path: Path, key: str, value: int) -> None:
    path = write_tiny_model(tmp_path / "m.gguf")
    write_patched(path, {key: value})
    with pytest.raises(ModelFileError):
        open_model(path)


def write_patched(path: Path, values: dict[str, int]) -> None:
    """Overwrite 32-bit metadata values in a file."""
    data = bytearray(path.read_bytes())
    for key, value in values.items():
        at = data.index(key.encode()) + len(key) + 4
        data[at : at + 4] = value.to_bytes(4, "little")
    path.write_bytes(data)


def write_and_close(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
