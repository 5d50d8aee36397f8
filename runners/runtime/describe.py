"""What the registry says of a model: its shape in plain numbers, read from the headers of its files alone.

Imports no torch, so that a node or the command line describes a model in a moment.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from runners.runtime.loading.layout import needed_tensors
from runners.runtime.loading.read_config import read_config
from runners.runtime.models.config import ModelConfig
from runners.runtime.tensor_file import open_tensor_file


def describe(path: Path | str) -> dict[str, Any]:
    """The shape of the model at a path (a .gguf file, or a folder in Hugging Face layout).

    architecture, layers, hidden_size, heads, kv_heads, head_dim, ffn (width of the gated MLP of dense layers),
    vocab_size, tied_embeddings, max_model_len, parameters (each stored weight once), vector_weights (those of norms and
    biases among them); of a mixture experts, experts_per_token, expert_ffn, expert_layers, else null; sliding_window
    (tokens, null where there is none) and sliding_layers, which have it.

    Raises ModelFileError for a model that the runtime would not load.
    """
    config, layout = read_config(open_tensor_file(path))
    shapes = [shape for _, shape in needed_tensors(config, layout)]
    return {
        "architecture": config.architecture,
        "layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "heads": config.num_heads,
        "kv_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "ffn": config.ffn_size,
        "vocab_size": config.vocab_size,
        "tied_embeddings": config.tied_embeddings,
        "max_model_len": config.max_model_len,
        "parameters": sum(prod(shape) for shape in shapes),
        "vector_weights": sum(shape[0] for shape in shapes if len(shape) == 1),
        **_mixture(config),
        **_windows(config),
    }


def _mixture(config: ModelConfig) -> dict[str, int | None]:
    experts = config.experts
    if experts is None:
        return dict.fromkeys(("experts", "experts_per_token", "expert_ffn", "expert_layers"))
    return {
        "experts": experts.count,
        "experts_per_token": experts.per_token,
        "expert_ffn": experts.ffn_size,
        "expert_layers": sum(layer.experts for layer in config.layers),
    }


def _windows(config: ModelConfig) -> dict[str, int | None]:
    windows = [layer.window for layer in config.layers if layer.window is not None]
    return {"sliding_window": windows[0] if windows else None, "sliding_layers": len(windows)}
