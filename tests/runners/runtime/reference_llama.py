"""Hugging Face's LlamaForCausalLM with the weights of one of our files, to compare logits with."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from runners.runtime.loading.weights import FileWeights, open_model
from runners.runtime.models.config import ModelConfig


def load_reference(path: Path, dtype: torch.dtype) -> LlamaForCausalLM:
    """The model in eval mode; its weights are ours, rounded to bf16, then held in `dtype`."""
    config, weights = open_model(path)
    with torch.device("meta"):
        model = LlamaForCausalLM(_hf_config(config))
    state = {name: value.to(torch.bfloat16).to(dtype) for name, value in _hf_weights(config, weights).items()}
    model = model.to_empty(device="cpu").to(dtype)
    model.load_state_dict(state, strict=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model.eval()


def reference_logits(model: LlamaForCausalLM, tokens: tuple[int, ...]) -> torch.Tensor:
    """Logits (tokens, vocab_size) float32 after each token of a text."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([tokens])).logits[0]
    return logits.to(torch.float32)


def _hf_config(config: ModelConfig) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.ffn_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.max_model_len,
        rms_norm_eps=config.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.ropes[0].theta},
        tie_word_embeddings=False,
        attn_implementation="eager",
    )


def _hf_weights(config: ModelConfig, weights: FileWeights) -> dict[str, torch.Tensor]:
    state = {
        "model.embed_tokens.weight": weights.embedding(),
        "model.norm.weight": weights.final_norm(),
        "lm_head.weight": weights.head(),
    }
    for index in range(config.num_layers):
        layer = weights.layer(index)
        q, k, v = layer.qkv.split((config.q_size, config.kv_size, config.kv_size))
        state |= {
            f"model.layers.{index}.{name}.weight": value
            for name, value in {
                "input_layernorm": layer.attention_norm,
                "self_attn.q_proj": _halves(q, config.head_dim),
                "self_attn.k_proj": _halves(k, config.head_dim),
                "self_attn.v_proj": v,
                "self_attn.o_proj": layer.o,
                "post_attention_layernorm": layer.ffn_norm,
                "mlp.gate_proj": layer.ffn.gate,
                "mlp.up_proj": layer.ffn.up,
                "mlp.down_proj": layer.ffn.down,
            }.items()
        }
    return state


def _halves(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """GGUF's neighbouring rotary pairs to Hugging Face's halves of a head."""
    pairs = rows.view(-1, head_dim // 2, 2, rows.shape[1])
    return pairs.transpose(1, 2).reshape(math.prod(rows.shape[:1]), rows.shape[1])
