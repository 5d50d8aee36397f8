"""A model that can't fit is refused in numbers before it is read, and reading never holds two layers."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch
from family_models import FAMILIES, build_reference, save_folder
from float32_parts import Float64Products
from tiny_model import TinyModel, write_tiny_model

from runners.runtime import memory
from runners.runtime.kernels.portable import PortableBf16
from runners.runtime.loading.weights import FileWeights, open_model
from runners.runtime.memory import ModelDoesNotFit, available_bytes, kv_block_bytes, memory_need
from runners.runtime.models.decoder import Decoder
from runners.runtime.models.weights import LayerWeights
from runners.runtime.torch_executor import build


def test_a_cache_beyond_the_memory_is_refused_before_a_weight_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny_model(tmp_path / "m.gguf")
    monkeypatch.setattr(FileWeights, "layer", lambda self, index: pytest.fail("a layer was read"))
    with pytest.raises(
        ModelDoesNotFit, match=r"it needs [\d,]+ bytes .*KV cache [\d,]+.*available: [\d,]+ bytes"
    ) as error:
        build(path, num_blocks=10**12, threads=1)
    assert error.value.retry is False
    assert error.value.need.kv_bytes == 10**12 * kv_block_bytes(open_model(path)[0], 32)
    assert error.value.available_bytes < error.value.need.total_bytes


def test_weights_beyond_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiny_model(tmp_path / "m.gguf")
    monkeypatch.setattr(memory, "memory_headroom_bytes", lambda: 100_000)
    with pytest.raises(ModelDoesNotFit, match="available: 100,000 bytes"):
        build(path, num_blocks=1, threads=1)


def test_a_claimed_context_that_no_table_could_hold_is_refused(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", TinyModel(max_model_len=2**31 - 1))
    with pytest.raises(ModelDoesNotFit):
        build(path, num_blocks=1, threads=1)


@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_counted_as_they_are_kept(tmp_path: Path, tied: bool) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", TinyModel(tied_embeddings=tied))
    config, weights = open_model(path)
    need = memory_need(config, weights.layout, bytes_per_weight=2, kv_bytes=7, max_model_len=64)
    kernels = PortableBf16()
    with torch.inference_mode():
        decoder = Decoder(config, weights, kernels, Float64Products(), 64)
    table = config.vocab_size * config.hidden_size * 2
    vectors = (2 * config.num_layers + 1) * config.hidden_size * 2
    assert need.weight_bytes == decoder.weight_bytes + table + vectors + 64 * config.head_dim // 2 * 8
    assert need.kv_bytes == 7


def test_available_memory_is_the_tighter_of_machine_and_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_headroom_bytes", lambda: None)
    machine = available_bytes()
    assert machine > 0
    monkeypatch.setattr(memory, "memory_headroom_bytes", lambda: 5)
    assert available_bytes() == 5


def test_one_layer_at_a_time_is_held_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_folder(build_reference(FAMILIES["qwen3-moe"]), tmp_path / "model")
    held: list[weakref.ref[torch.Tensor]] = []
    read_layer = FileWeights.layer

    def layer(self: FileWeights, index: int) -> LayerWeights:
        gc.collect()
        assert not [each for each in held if each() is not None], "a layer before this one is still there"
        weights = read_layer(self, index)
        held.append(weakref.ref(weights.qkv))
        return weights

    monkeypatch.setattr(FileWeights, "layer", layer)
    config, weights = open_model(folder)
    with torch.inference_mode():
        Decoder(config, weights, PortableBf16(), Float64Products(), 64)
    assert len(held) == config.num_layers
