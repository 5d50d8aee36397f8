"""What a model's configuration may say: each key is understood, known to change nothing, or refused by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from family_models import FAMILIES, ONLY_HF, build_reference, save_folder, write_gguf
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from runners.runtime.describe import describe
from runners.runtime.loading.fields import Fields
from runners.runtime.loading.hf_config import READERS, read_hf_config
from runners.runtime.loading.weights import open_model
from runners.runtime.models.config import Llama3Scaling, RopeConfig, YarnScaling
from runners.runtime.models.rope_scaling import rope_rates
from runners.runtime.safetensors_folder import SafetensorsFolder
from runners.runtime.tensor_file import ModelFileError


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("families")
    return {
        name: save_folder(build_reference(FAMILIES[name]), folder / name)
        for name in ("llama3", "qwen2-yarn", "qwen3-moe", "gemma3")
    }


def with_config(folder: Path, target: Path, changes: dict[str, Any], without: tuple[str, ...] = ()) -> Path:
    """A copy whose config.json has other values."""
    target.mkdir()
    config = json.loads((folder / "config.json").read_text()) | changes
    (target / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k not in without}))
    (target / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    return target


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, r"config\.json model_type: expected 'llama' or .*, found 'mamba'"),
        ({"model_type": 7}, r"model_type: expected 'llama' or .*, found 7"),
        ({"attention_multiplier": 0.5}, r"attention_multiplier: expected no such key.*found 0\.5"),
        ({"quantization_config": {"quant_method": "gptq"}}, r"quantization_config: expected no such key"),
        ({"mlp_bias": True}, r"mlp_bias: expected False, found True"),
        ({"hidden_act": "gelu"}, r"hidden_act: expected 'silu', found 'gelu'"),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor: expected 1 or 1\.0, found 0\.5"),
        ({"rope_parameters": {"rope_type": "longrope"}}, r"rope_type: expected 'default' or .*, found 'longrope'"),
        ({"rope_parameters": {"rope_type": "linear"}}, r"rope_parameters factor: expected a number from"),
        ({"rope_parameters": {"rope_theta": 1e4, "mrope_section": [1]}}, r"mrope_section: expected no such key"),
        ({"num_attention_heads": 3}, r"attention shape: expected KV heads that divide the heads, found 3 heads, 2 KV"),
        ({"num_key_value_heads": 0}, r"num_key_value_heads: expected a whole number from 1"),
        ({"hidden_size": "64"}, r"hidden_size: expected a whole number from 1 .*found '64'"),
        ({"hidden_size": True}, r"hidden_size: expected a whole number"),
        ({"hidden_size": 10**30}, r"hidden_size: expected a whole number"),
        ({"rms_norm_eps": float("nan")}, r"rms_norm_eps|NaN"),
        ({"num_hidden_layers": 10**9}, r"number of layers: expected at most 1024, found 1000000000"),
        ({"head_dim": 15}, r"an even head size"),
        ({"tie_word_embeddings": "yes"}, r"tie_word_embeddings: expected true or false, found 'yes'"),
        ({"num_hidden_layers": 5}, r"tensor model\.layers\.4\.\S+: expected shape .*found nothing"),
        ({"num_hidden_layers": 3}, r"tensor model\.layers\.3\.\S+: expected no such tensor in a model of arch.* llama"),
        ({"vocab_size": 95}, r"embed_tokens\.weight: expected shape \(95, 64\), found shape \(96, 64\)"),
    ],
)
def test_a_key_that_changes_the_result_is_refused_by_name(
    folders: dict[str, Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        open_model(with_config(folders["llama3"], tmp_path / "m", changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["full_attention"] * 3}, r"layer_types: expected a list of 4 items, found 'a list of 3'"),
        ({"layer_types": ["chunked_attention"] * 4}, r"layer_types: expected sliding_attention or full_attention"),
        ({"use_bidirectional_attention": True}, r"use_bidirectional_attention: expected no such key"),
        ({"hidden_activation": "gelu"}, r"hidden_activation: expected 'gelu_pytorch_tanh', found 'gelu'"),
        ({"query_pre_attn_scalar": 0}, r"query_pre_attn_scalar: expected a number from"),
    ],
)
def test_gemmas_own_keys_are_checked(
    folders: dict[str, Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        open_model(with_config(folders["gemma3"], tmp_path / "m", changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_experts_per_tok": 7}, r"experts per token: expected at most 6, the number of experts, found 7"),
        ({"shared_expert_intermediate_size": 40}, r"shared_expert_intermediate_size: expected no such key"),
        ({"moe_intermediate_size": 41}, r"experts\.0\.gate_proj\.weight: expected shape \(41, 64\)"),
        ({"mlp_only_layers": [0]}, r"layers\.0\.mlp\.gate_proj\.weight: expected shape .*found nothing"),
    ],
)
def test_a_mixtures_keys_are_checked(
    folders: dict[str, Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        open_model(with_config(folders["qwen3-moe"], tmp_path / "m", changes | {"num_local_experts": 6}))


def test_keys_that_are_off_or_harmless_change_nothing(folders: dict[str, Path], tmp_path: Path) -> None:
    harmless = {"unknown_switch": False, "unknown_scale": None, "use_cache": False, "_name_or_path": "x"}
    changed = with_config(folders["llama3"], tmp_path / "m", harmless)
    assert open_model(changed)[0] == open_model(folders["llama3"])[0]


def test_the_older_spelling_of_rotary_scaling_reads_the_same(folders: dict[str, Path], tmp_path: Path) -> None:
    for name, kind in (("llama3", Llama3Scaling), ("qwen2-yarn", YarnScaling)):
        parameters = json.loads((folders[name] / "config.json").read_text())["rope_parameters"]
        theta = parameters.pop("rope_theta")
        parameters["type"] = parameters.pop("rope_type")
        older = {"rope_theta": theta, "rope_scaling": parameters}
        path = with_config(folders[name], tmp_path / name, older, without=("rope_parameters",))
        config = open_model(path)[0]
        assert config == open_model(folders[name])[0]
        assert isinstance(config.ropes[0].scaling, kind)


def test_gemma_3_in_its_older_spelling_reads_the_same(folders: dict[str, Path], tmp_path: Path) -> None:
    older = {
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    path = with_config(folders["gemma3"], tmp_path / "m", older, without=("rope_parameters",))
    assert open_model(path)[0] == open_model(folders["gemma3"])[0]


def test_a_stretched_context_counts_as_long_as_it_was_stretched(folders: dict[str, Path], tmp_path: Path) -> None:
    path = with_config(folders["qwen2-yarn"], tmp_path / "m", {"max_position_embeddings": 128})
    assert open_model(path)[0].max_model_len == 512


def test_a_tensor_without_a_role_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    path = with_config(folders["llama3"], tmp_path / "m", {})
    state = load_file(path / "model.safetensors") | {"model.layers.0.self_attn.sinks": torch.zeros(4)}
    save_file(state, path / "model.safetensors")
    with pytest.raises(ModelFileError, match=r"self_attn\.sinks: expected no such tensor"):
        open_model(path)


def test_a_published_text_part_leaves_out_what_transformers_has_by_default(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    text = {"hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34, "sliding_window": 1024}
    text |= {"rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "model_type": "gemma3_text"}
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    (folder / "model.safetensors").write_bytes((folders["gemma3"] / "model.safetensors").read_bytes())
    config = read_hf_config(SafetensorsFolder(folder))
    assert (config.num_heads, config.num_kv_heads, config.head_dim, config.vocab_size) == (8, 4, 256, 262_208)
    assert (config.max_model_len, config.tied_embeddings) == (131_072, True)
    assert [layer.window for layer in config.layers[:7]] == [1024] * 5 + [None, 1024]


def test_a_model_with_images_must_hold_a_text_part(folders: dict[str, Path], tmp_path: Path) -> None:
    path = with_config(folders["gemma3"], tmp_path / "m", {"model_type": "gemma3", "text_config": 3})
    with pytest.raises(ModelFileError, match=r"config\.json text_config: expected an object, found 3"):
        open_model(path)


keys = st.text(min_size=1, max_size=12)
ropes = st.dictionaries(
    st.sampled_from(["rope_type", "rope_theta", "factor", "beta_fast", "beta_slow", "mscale", "attention_factor"]),
    st.sampled_from(["default", "linear", "yarn", "llama3"]) | st.floats() | st.integers(),
)
values = ropes | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers())


@settings(max_examples=60, deadline=None)
@given(
    family=st.sampled_from(sorted(READERS)), extra=st.dictionaries(keys, values), changed=values, which=st.integers(0)
)
def test_any_configuration_is_read_or_refused_by_name(
    family: str, extra: dict[str, Any], changed: Any, which: int
) -> None:
    config = BASE | {"model_type": family}
    config[sorted(config)[which % len(config)]] = changed
    try:
        read = READERS[family](Fields(Path("m"), "config.json ", config | extra))
    except ModelFileError as error:
        assert "expected" in str(error)
    else:
        for rope in read.ropes:
            assert all(rate > 0 for rate in rope_rates(rope, read.head_dim)[:8])


BASE: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 96,
    "max_position_embeddings": 128,
    "rope_parameters": {"rope_theta": 1e4},
    "layer_types": ["full_attention"] * 2,
    "sliding_window": 7,
    "num_experts_per_tok": 2,
    "no_rope_layers": [1, 0],
    "mlp_only_layers": [],
}


def write_gguf_with(path: Path, architecture: str, extra: dict[str, float | int]) -> Path:
    """Metadata of a small model, and one tensor."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    for key, value in extra.items():
        writer.add_float32(key, value) if isinstance(value, float) else writer.add_uint32(key, value)
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("architecture", "extra", "message"),
    [
        ("gptneox", {}, r"general\.architecture: expected 'llama' or .*, found 'gptneox'"),
        ("llama", {"llama.attention.clamp_kqv": 8.0}, r"llama\.attention\.clamp_kqv: expected no such key"),
        ("llama", {"llama.rope.dimension_count": 8}, r"rope\.dimension_count: expected 16, found 8"),
        ("llama", {"llama.attention.value_length": 8}, r"attention\.value_length: expected 16, found 8"),
        ("llama", {"llama.expert_count": 4, "llama.expert_used_count": 5}, r"experts per token: expected at most 4"),
        ("qwen3moe", {"qwen3moe.expert_weights_scale": 2.5}, r"expert_weights_scale: expected 1\.0, found 2\.5"),
        ("qwen3moe", {"qwen3moe.expert_shared_count": 1}, r"expert_shared_count: expected no such key"),
        ("qwen2", {"qwen2.rope.freq_base": 0.0}, r"rope\.freq_base: expected a number from .*found 0\.0"),
        ("gemma3", {}, r"attention\.sliding_window: expected a whole number from 1 .*found nothing"),
    ],
)
def test_gguf_metadata_is_held_to_the_same(
    tmp_path: Path, architecture: str, extra: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        open_model(write_gguf_with(tmp_path / "m.gguf", architecture, extra))


def test_a_description_counts_what_transformers_counts(tmp_path: Path) -> None:
    for name in ("gemma2", "qwen3-moe", "llama-biased"):
        model = build_reference(FAMILIES[name])
        folder = save_folder(model, tmp_path / name)
        described = describe(folder)
        assert described["parameters"] == model.num_parameters()
        assert described["vector_weights"] == sum(each.numel() for each in model.parameters() if each.dim() == 1)
        from_gguf = describe(write_gguf(FAMILIES[name], folder, tmp_path / f"{name}.gguf"))
        assert from_gguf | {"tied_embeddings": None} == described | {"tied_embeddings": None} | {
            "architecture": from_gguf["architecture"]
        }


def test_a_description_names_experts_and_windows(folders: dict[str, Path], tmp_path: Path) -> None:
    mixture = describe(folders["qwen3-moe"])
    assert {key: mixture[key] for key in ("experts", "experts_per_token", "expert_ffn", "expert_layers")} == {
        "experts": 6,
        "experts_per_token": 2,
        "expert_ffn": 40,
        "expert_layers": 4,
    }
    windowed = describe(folders["gemma3"])
    assert (windowed["sliding_window"], windowed["sliding_layers"], windowed["experts"]) == (24, 3, None)
    sparse = describe(save_folder(build_reference(ONLY_HF["qwen3-moe-unnormalised"]), tmp_path / "sparse"))
    assert sparse["expert_layers"] == 1


def test_a_plain_rotary_embedding_has_no_scaling() -> None:
    fields = Fields(Path("m"), "config.json ", BASE | {"model_type": "llama"})
    assert READERS["llama"](fields).ropes == (RopeConfig(1e4),)
