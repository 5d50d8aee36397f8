"""Bounds that every decoder's shape keeps, whatever file states it; a broken one is an error that names the numbers."""

from __future__ import annotations

from pathlib import Path

from runners.runtime.loading.fields import MAX_SIZE
from runners.runtime.model_file import ModelFileError
from runners.runtime.models.config import RopeConfig, YarnScaling

MAX_LAYERS = 1024


def check_attention_shape(path: Path, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
    """Raises ModelFileError unless query heads share KV heads evenly and a head splits into rotary pairs."""
    if num_heads % num_kv_heads:
        found = f"{num_heads} heads, {num_kv_heads} KV heads"
        raise ModelFileError(path, "attention shape", "KV heads that divide the heads", found)
    if head_dim % 2:
        raise ModelFileError(path, "attention shape", "an even head size", str(head_dim))


def check_num_layers(path: Path, num_layers: int) -> int:
    if num_layers > MAX_LAYERS:
        raise ModelFileError(path, "number of layers", f"at most {MAX_LAYERS}", str(num_layers))
    return num_layers


def check_theta(path: Path, theta: float) -> float:
    """A rotary base of 1 or less would turn slow pairs no slower than quick ones."""
    if theta <= 1:
        raise ModelFileError(path, "rotary base (theta)", "more than 1", str(theta))
    return theta


def longest_context(stated: int, rope: RopeConfig) -> int:
    """In tokens: files with YaRN often state the context before stretching."""
    if isinstance(rope.scaling, YarnScaling):
        return max(stated, min(int(rope.scaling.original_max_len * rope.scaling.factor), MAX_SIZE))
    return stated


def check_experts(path: Path, count: int, per_token: int) -> None:
    if per_token > count:
        raise ModelFileError(path, "experts per token", f"at most {count}, the number of experts", str(per_token))
