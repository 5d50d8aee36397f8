"""A Llama model out of a GGUF file: its configuration, and its weights by role as float32 tensors.

Checks every tensor's presence and shape against the configuration before anything is computed. It does not decide in
which precision the weights are used (models/) nor read tokenizer data (tokenizer.py). GGUF stores the rows of q and k
so that rotary pairs are neighbours (2i, 2i + 1); they stay so, and kernels/rope.py rotates neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from runners.runtime.gguf_file import GGUFFile, ModelFileError
from runners.runtime.quantize.dequantize import dequantize

__all__ = ["LayerWeights", "ModelConfig", "ModelFileError", "ModelWeights", "load_config", "load_model"]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a Llama model. `max_model_len` is the longest context it was trained for, in tokens."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    rope_theta: float
    norm_eps: float
    max_model_len: int
    tied_embeddings: bool

    @property
    def qkv_size(self) -> int:
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer: qkv (qkv_size, hidden), o (hidden, heads · head_dim), gate, up (ffn, hidden), down (hidden, ffn)."""

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    o: torch.Tensor
    ffn_norm: torch.Tensor
    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """All weights, float32. `head` is `embedding` itself where the model ties them; both (vocab, hidden)."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: torch.Tensor


def load_config(file: GGUFFile) -> ModelConfig:
    """The configuration in a file's metadata. Raises ModelFileError for another architecture or an impossible shape."""
    architecture = file.require("general.architecture", str)
    if architecture != "llama":
        raise ModelFileError(file.path, "metadata general.architecture", "'llama'", repr(architecture))
    scaling = file.metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in file.tensors:
        raise ModelFileError(file.path, "rope scaling", "none", str(scaling))
    num_heads = _positive(file, "llama.attention.head_count")
    hidden_size = _positive(file, "llama.embedding_length")
    num_kv_heads = int(file.metadata.get("llama.attention.head_count_kv", num_heads))
    if num_kv_heads < 1 or num_heads % num_kv_heads or hidden_size % num_heads:
        found = f"{num_heads} heads, {num_kv_heads} KV heads, hidden size {hidden_size}"
        raise ModelFileError(file.path, "attention shape", "KV heads that divide heads that divide hidden size", found)
    head_dim = int(file.metadata.get("llama.attention.key_length", hidden_size // num_heads))
    rotated = int(file.metadata.get("llama.rope.dimension_count", head_dim))
    if head_dim % 2 or rotated != head_dim:
        raise ModelFileError(file.path, "metadata llama.rope.dimension_count", f"{head_dim}, even", str(rotated))
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelFileError(file.path, "tensor token_embd.weight", "a tensor", "nothing")
    return ModelConfig(
        num_layers=_positive(file, "llama.block_count"),
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        ffn_size=_positive(file, "llama.feed_forward_length"),
        vocab_size=embedding.shape[0],
        rope_theta=float(file.metadata.get("llama.rope.freq_base", 10000.0)),
        norm_eps=file.require("llama.attention.layer_norm_rms_epsilon", float),
        max_model_len=_positive(file, "llama.context_length"),
        tied_embeddings="output.weight" not in file.tensors,
    )


def load_model(path: Path | str) -> tuple[ModelConfig, ModelWeights]:
    """Configuration and weights of a GGUF file. Raises ModelFileError naming the file's part that does not fit."""
    file = GGUFFile(path)
    config = load_config(file)
    reader = _Reader(file)
    vocab_shape = (config.vocab_size, config.hidden_size)
    embedding = reader.tensor("token_embd", vocab_shape)
    head = embedding if config.tied_embeddings else reader.tensor("output", vocab_shape)
    layers = tuple(_load_layer(reader, config, index) for index in range(config.num_layers))
    final_norm = reader.tensor("output_norm", (config.hidden_size,))
    return config, ModelWeights(embedding, layers, final_norm, head)


def _load_layer(reader: _Reader, config: ModelConfig, index: int) -> LayerWeights:
    hidden, ffn = config.hidden_size, config.ffn_size
    q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    block = f"blk.{index}"
    q = reader.tensor(f"{block}.attn_q", (q_size, hidden))
    k = reader.tensor(f"{block}.attn_k", (kv_size, hidden))
    v = reader.tensor(f"{block}.attn_v", (kv_size, hidden))
    return LayerWeights(
        attention_norm=reader.tensor(f"{block}.attn_norm", (hidden,)),
        qkv=torch.cat((q, k, v)),
        o=reader.tensor(f"{block}.attn_output", (hidden, q_size)),
        ffn_norm=reader.tensor(f"{block}.ffn_norm", (hidden,)),
        gate=reader.tensor(f"{block}.ffn_gate", (ffn, hidden)),
        up=reader.tensor(f"{block}.ffn_up", (ffn, hidden)),
        down=reader.tensor(f"{block}.ffn_down", (hidden, ffn)),
    )


def _positive(file: GGUFFile, key: str) -> int:
    value: int = file.require(key, int)
    if value < 1:
        raise ModelFileError(file.path, f"metadata {key}", "at least 1", str(value))
    return value


class _Reader:
    """Float32 tensors by name, checked against the shape that the configuration asks for."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file

    def tensor(self, stem: str, shape: tuple[int, ...]) -> torch.Tensor:
        name = f"{stem}.weight"
        record = self._file.tensors.get(name)
        found = "nothing" if record is None else f"shape {record.shape}"
        if record is None or record.shape != shape:
            raise ModelFileError(self._file.path, f"tensor {name}", f"shape {shape}", found)
        return torch.from_numpy(dequantize(self._file.raw(name), record.type_name, shape))
