"""A small random model of every family: built by transformers, saved in its layout, and written again as GGUF.

All weights are whole bf16 numbers, so that float32 and bf16 runs start from the same ones; they are drawn wide enough
that logits depend on every part. Windows are far shorter than the texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file

LAYERS, WINDOW, MAX_LEN, VOCAB = 4, 24, 1024, 96
EXPERTS, EXPERTS_PER_TOKEN = 6, 2

_SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_LEN,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}

_YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 128}


@dataclass(frozen=True)
class Family:
    """One configuration of a family; `gguf` is its architecture there, `neighbours` how it pairs rotary rows."""

    config: str
    gguf: str
    settings: dict[str, Any] = field(default_factory=dict)
    neighbours: bool = False

    def transformers_config(self) -> Any:
        return getattr(transformers, self.config)(**(_SHAPE | self.settings))


FAMILIES = {
    "llama3": Family("LlamaConfig", "llama", {"rope_parameters": _LLAMA3_ROPE}, neighbours=True),
    "llama-biased": Family("LlamaConfig", "llama", {"attention_bias": True, "head_dim": 32}, neighbours=True),
    "smollm2": Family("LlamaConfig", "llama", {"tie_word_embeddings": True}, neighbours=True),
    "smollm3": Family("SmolLM3Config", "smollm3", {"no_rope_layer_interval": 4}, neighbours=True),
    "mistral": Family("MistralConfig", "llama", {"sliding_window": WINDOW}, neighbours=True),
    "mixtral": Family(
        "MixtralConfig",
        "llama",
        {"num_local_experts": EXPERTS, "num_experts_per_tok": EXPERTS_PER_TOKEN},
        neighbours=True,
    ),
    "qwen2": Family("Qwen2Config", "qwen2", {"tie_word_embeddings": True}),
    "qwen2-yarn": Family("Qwen2Config", "qwen2", {"rope_parameters": _YARN}),
    "qwen3": Family("Qwen3Config", "qwen3", {"head_dim": 32}),
    "qwen3-linear": Family(
        "Qwen3Config",
        "qwen3",
        {"head_dim": 32, "rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}},
    ),
    "qwen3-moe": Family(
        "Qwen3MoeConfig",
        "qwen3moe",
        {
            "head_dim": 32,
            "num_experts": EXPERTS,
            "num_experts_per_tok": EXPERTS_PER_TOKEN,
            "moe_intermediate_size": 40,
            "norm_topk_prob": True,
        },
    ),
    "gemma2": Family(
        "Gemma2Config",
        "gemma2",
        {
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": WINDOW,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": Family(
        "Gemma3TextConfig",
        "gemma3",
        {
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
                "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
            },
        },
    ),
}

ONLY_HF = {
    "qwen2-sliding": Family(
        "Qwen2Config", "", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2}
    ),
    "qwen3-moe-unnormalised": Family(
        "Qwen3MoeConfig",
        "",
        {
            "head_dim": 16,
            "num_experts": EXPERTS,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 40,
            "norm_topk_prob": False,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [3],
            "attention_bias": True,
        },
    ),
    "gemma3-scaled-queries": Family(
        "Gemma3TextConfig", "", {"head_dim": 16, "query_pre_attn_scalar": 100, "sliding_window": WINDOW}
    ),
    "mistral-unbounded": Family("MistralConfig", "", {"sliding_window": None}),
}
"""Settings that a GGUF file has no word for, or that differ there."""


def build_reference(family: Family, seed: int = 0) -> Any:
    """transformers' model in float32, with eager attention (the one that knows soft-caps)."""
    config = family.transformers_config()
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=draw)
            if "norm" in name:
                noise = noise * 0.2 + (0.0 if family.config.startswith("Gemma") else 1.0)
            elif weight.dim() == 1:
                noise = noise * 0.3
            elif "embed" in name:
                noise = noise * (0.125 if family.config.startswith("Gemma") else 1.0)
            else:
                noise = noise * 1.3 / weight.shape[-1] ** 0.5
            weight.copy_(noise.to(torch.bfloat16))
    return model.eval()


def save_folder(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def write_gguf(
    family: Family,
    folder: Path,
    path: Path,
    weight_type: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
) -> Path:
    """A folder's model as GGUF, its tensors named by the gguf package and reordered as llama.cpp's converter does.

    Matrices of the layers have `weight_type`, whose blocks must divide their rows.
    """
    config = family.transformers_config()
    writer = gguf.GGUFWriter(path, family.gguf)
    _add_metadata(writer, family, config)
    architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == family.gguf)
    names = gguf.get_tensor_name_map(architecture, LAYERS)
    for hf_name, values in _stacked(load_file(folder / "model.safetensors")).items():
        name = names.get_name(hf_name, try_suffixes=(".weight", ".bias"))
        assert name is not None, hf_name
        values = _converted(family, config, hf_name, values).to(torch.float32).numpy()
        kind = weight_type if "_proj" in hf_name or ".experts." in hf_name else gguf.GGMLQuantizationType.F32
        kind = kind if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    if family.settings.get("rope_parameters") is _LLAMA3_ROPE:
        writer.add_tensor("rope_freqs.weight", _llama3_divisors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _stacked(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Experts of a layer as one tensor each."""
    out: dict[str, torch.Tensor] = {}
    for name, values in state.items():
        if ".experts." not in name:
            out[name] = values
            continue
        before, after = name.split(".experts.")
        kind = after.split(".", 1)[1]
        experts = [state[f"{before}.experts.{index}.{kind}"] for index in range(EXPERTS)]
        out[f"{before}.experts.{kind}"] = torch.stack(experts)
    return out


def _converted(family: Family, config: Any, name: str, values: torch.Tensor) -> torch.Tensor:
    if family.config.startswith("Gemma") and "norm" in name:
        return values + 1
    rotated = any(f"self_attn.{part}_proj" in name for part in "qk")
    if family.neighbours and rotated:
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        return values.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2).contiguous()
    return values


def _llama3_divisors(config: Any) -> np.ndarray:
    """What plain rates are divided by to get transformers' scaled ones."""
    scaled, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config)
    head_dim = config.hidden_size // config.num_attention_heads
    plain = 500_000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    return (plain / scaled).numpy().astype(np.float32)


def _add_metadata(writer: gguf.GGUFWriter, family: Family, config: Any) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _add_rope(writer, config)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if family.gguf == "gemma3":
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    if family.gguf == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if "Mixtral" in family.config or "Moe" in family.config:
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(EXPERTS_PER_TOKEN)
    if "Moe" in family.config:
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def _add_rope(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
