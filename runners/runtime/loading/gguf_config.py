"""A decoder's configuration from the metadata of a GGUF file, one short function for each architecture.

What the metadata leaves out, the tensors tell (biases, tied embeddings, experts), or the architecture's rules, as
llama.cpp applies them. Every key of the architecture is read, or listed as one that changes no logits, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runners.runtime.gguf_file import GGUFFile
from runners.runtime.loading.fields import Fields
from runners.runtime.loading.shape_checks import (
    check_attention_shape,
    check_experts,
    check_num_layers,
    check_theta,
    longest_context,
)
from runners.runtime.model_file import ModelFileError
from runners.runtime.models.config import (
    ExpertsConfig,
    LayerConfig,
    LinearScaling,
    ModelConfig,
    RopeConfig,
    RopeScaling,
    TableScaling,
    YarnScaling,
)
from runners.runtime.models.rope_scaling import yarn_attention_factor

HARMLESS = frozenset({"vocab_size", "rope.scaling.finetuned", "tensor_data_layout", "mm.tokens_per_image"})

ROPE_TABLE = "rope_freqs.weight"

_GEMMA2_27B_LAYERS, _GEMMA3_27B_LAYERS = 46, 62
"""The 27B models scale queries by hidden_size / heads, which the file does not say; they are known by their layers."""

_SMOLLM3_NO_ROPE_EVERY = 4

Reader = Callable[[GGUFFile, Fields], ModelConfig]


def read_gguf_config(file: GGUFFile) -> ModelConfig:
    """The configuration of a file. Raises ModelFileError for an unknown architecture, a key whose effect is not known,
    or an impossible shape."""
    architecture = file.require("general.architecture", str)
    if architecture not in READERS:
        allowed = " or ".join(repr(each) for each in READERS)
        raise ModelFileError(file.path, "metadata general.architecture", allowed, repr(architecture))
    prefix = f"{architecture}."
    values = {key.removeprefix(prefix): value for key, value in file.metadata.items() if key.startswith(prefix)}
    fields = Fields(file.path, f"metadata {prefix}", values)
    config = READERS[architecture](file, fields)
    fields.refuse_rest(HARMLESS)
    return config


def _llama(file: GGUFFile, fields: Fields) -> ModelConfig:
    """Llama, SmolLM2, Mistral and Mixtral alike."""
    config = _with_experts(file, fields, _base(file, fields, "llama"))
    window = fields.optional_size("attention.sliding_window")
    return replace(config, layers=tuple(replace(layer, window=window) for layer in config.layers))


def _qwen2(file: GGUFFile, fields: Fields) -> ModelConfig:
    return _base(file, fields, "qwen2")


def _qwen3(file: GGUFFile, fields: Fields) -> ModelConfig:
    return replace(_base(file, fields, "qwen3"), qk_norm=True)


def _qwen3_moe(file: GGUFFile, fields: Fields) -> ModelConfig:
    return replace(_with_experts(file, fields, _base(file, fields, "qwen3_moe")), qk_norm=True)


def _smollm3(file: GGUFFile, fields: Fields) -> ModelConfig:
    config = _base(file, fields, "smollm3")
    layers = tuple(
        layer if (index + 1) % _SMOLLM3_NO_ROPE_EVERY else replace(layer, rope=None)
        for index, layer in enumerate(config.layers)
    )
    return replace(config, layers=layers)


def _gemma2(file: GGUFFile, fields: Fields) -> ModelConfig:
    rope = _rope(file, fields, 10_000.0)
    config = _gemma(file, fields, "gemma2", (rope, rope), every=2, big=_GEMMA2_27B_LAYERS)
    return replace(
        config,
        attention_softcap=fields.optional_number("attn_logit_softcapping", 50.0),
        logit_softcap=fields.optional_number("final_logit_softcapping", 30.0),
    )


def _gemma3(file: GGUFFile, fields: Fields) -> ModelConfig:
    local = RopeConfig(check_theta(file.path, fields.number("rope.freq_base_swa", 10_000.0)))
    ropes = local, _rope(file, fields, 1_000_000.0)
    config = _gemma(file, fields, "gemma3", ropes, every=6, big=_GEMMA3_27B_LAYERS)
    return replace(config, qk_norm=True, logit_softcap=fields.optional_number("final_logit_softcapping"))


def _gemma(
    file: GGUFFile, fields: Fields, family: str, ropes: tuple[RopeConfig, RopeConfig], *, every: int, big: int
) -> ModelConfig:
    """Both Gemmas: (local, global) rotary embeddings, each layer local but the last of `every`."""
    config = _base(file, fields, family, rope=ropes[1])
    window = fields.size("attention.sliding_window")
    scaled = config.hidden_size // config.num_heads if config.num_layers == big else config.head_dim
    return replace(
        config,
        layers=tuple(
            LayerConfig(ropes[0], window) if local else LayerConfig(ropes[1])
            for local in _local_layers(fields, config.num_layers, every)
        ),
        query_scale=scaled**-0.5,
        embedding_scale=config.hidden_size**0.5,
        post_norms=True,
        float32_norms=True,
        activation="gelu_tanh",
    )


READERS: dict[str, Reader] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3moe": _qwen3_moe,
    "smollm3": _smollm3,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
}
"""By `general.architecture`."""


def _base(file: GGUFFile, fields: Fields, family: str, *, rope: RopeConfig | None = None) -> ModelConfig:
    """What all architectures share: every layer sees everything, with one rotary embedding."""
    hidden_size, num_heads = fields.size("embedding_length"), fields.size("attention.head_count")
    num_kv_heads = fields.size("attention.head_count_kv", num_heads)
    head_dim = fields.size("attention.key_length", max(hidden_size // num_heads, 1))
    check_attention_shape(file.path, num_heads, num_kv_heads, head_dim)
    for key in ("attention.value_length", "rope.dimension_count"):
        fields.one_of(key, (head_dim,), head_dim)
    fields.one_of("attention.causal", (True,), True)
    num_layers = check_num_layers(file.path, fields.size("block_count"))
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelFileError(file.path, "tensor token_embd.weight", "a tensor", "nothing")
    rope = rope or _rope(file, fields, 10_000.0)
    return ModelConfig(
        architecture=family,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        ffn_size=fields.size("feed_forward_length"),
        vocab_size=embedding.shape[0],
        norm_eps=fields.number("attention.layer_norm_rms_epsilon"),
        max_model_len=longest_context(fields.size("context_length"), rope),
        tied_embeddings="output.weight" not in file.tensors,
        query_scale=head_dim**-0.5,
        layers=(LayerConfig(rope),) * num_layers,
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        o_bias="blk.0.attn_output.bias" in file.tensors,
    )


def _rope(file: GGUFFile, fields: Fields, theta: float) -> RopeConfig:
    """The rotary embedding; a table of divisors in the file stands for Llama 3's scaling."""
    theta = check_theta(file.path, fields.number("rope.freq_base", theta))
    kind = fields.one_of("rope.scaling.type", ("none", "linear", "yarn"), "none")
    factor = fields.optional_number("rope.scaling.factor")
    legacy = fields.optional_number("rope.scale_linear")
    length = fields.optional_size("rope.scaling.original_context_length")
    if ROPE_TABLE in file.tensors:
        fields.one_of("rope.scaling.type", ("none",), "none")
        return RopeConfig(theta, TableScaling(ROPE_TABLE))
    if kind == "yarn":
        return RopeConfig(theta, _yarn(fields, length or fields.size("context_length")))
    scaling: RopeScaling | None = None
    if kind == "linear":
        scaling = LinearScaling(factor or fields.number("rope.scaling.factor"))
    elif legacy is not None and legacy != 1:
        scaling = LinearScaling(legacy)
    return RopeConfig(theta, scaling)


def _yarn(fields: Fields, original_max_len: int) -> YarnScaling:
    factor = fields.number("rope.scaling.factor")
    fields.one_of("rope.scaling.yarn_ext_factor", (1.0,), 1.0)
    stretch = fields.number("rope.scaling.attn_factor", 1.0) * fields.number("rope.scaling.yarn_attn_factor", 1.0)
    return YarnScaling(
        factor,
        original_max_len,
        stretch * yarn_attention_factor(factor),
        fields.number("rope.scaling.yarn_beta_fast", 32.0),
        fields.number("rope.scaling.yarn_beta_slow", 1.0),
    )


def _with_experts(file: GGUFFile, fields: Fields, config: ModelConfig) -> ModelConfig:
    """Mixtures in the layers that have a router; shares of the chosen experts sum to 1, as llama.cpp has them."""
    fields.one_of("expert_gating_func", (0, 1), 1)  # softmax, or unsaid
    fields.one_of("expert_weights_scale", (1.0,), 1.0)
    normalise = fields.flag("expert_weights_norm", True)
    if not fields.take("expert_count"):
        fields.take("expert_used_count")
        return config
    count, per_token = fields.size("expert_count"), fields.size("expert_used_count")
    check_experts(file.path, count, per_token)
    width = fields.size("expert_feed_forward_length", config.ffn_size)
    layers = tuple(
        replace(layer, experts=f"blk.{index}.ffn_gate_inp.weight" in file.tensors)
        for index, layer in enumerate(config.layers)
    )
    return replace(config, experts=ExpertsConfig(count, per_token, width, normalise), layers=layers)


def _local_layers(fields: Fields, num_layers: int, every: int) -> list[bool]:
    """Which layers slide: all but the last of `every`, or as the file lists them."""
    stated = fields.take("attention.sliding_window_pattern")
    if isinstance(stated, list):
        return [bool(each) for each in fields.items("attention.sliding_window_pattern", num_layers) or ()]
    every = fields.size("attention.sliding_window_pattern", every)
    return [(index + 1) % every != 0 for index in range(num_layers)]
