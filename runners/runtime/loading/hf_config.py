"""A decoder's configuration from `config.json` in Hugging Face layout, one short function for each family.

Reads the keys of transformers 4 and 5 alike; absent keys take the family's defaults there. Every key is read, or
listed as one that changes no logits, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runners.runtime.loading.fields import Fields
from runners.runtime.loading.hf_rope import read_local_global_ropes, read_rope
from runners.runtime.loading.shape_checks import check_attention_shape, check_experts, check_num_layers, longest_context
from runners.runtime.models.config import ExpertsConfig, LayerConfig, ModelConfig, RopeConfig
from runners.runtime.safetensors_folder import SafetensorsFolder

HARMLESS = frozenset(
    {
        "architectures", "model_type", "dtype", "torch_dtype", "transformers_version", "use_cache", "initializer_range",
        "attention_dropout", "bos_token_id", "eos_token_id", "pad_token_id", "cache_implementation", "id2label",
        "label2id", "return_dict", "output_attentions", "output_hidden_states", "output_router_logits",
        "router_aux_loss_coef", "router_jitter_noise", "pretraining_tp", "chunk_size_feed_forward", "problem_type",
        "task_specific_params", "transformers.js_config", "unsloth_fixed", "unsloth_version", "is_llama_config",
        "max_window_layers", "sliding_window_pattern", "sliding_window_size", "no_rope_layer_interval",
    }
)  # fmt: skip
"""Keys of training, storing and generating, and those that others decide where they matter; none changes logits."""

IMAGES = frozenset(
    {
        "vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index",
        "boi_token_id", "eoi_token_id", "image_token_id",
    }
)  # fmt: skip
"""Keys of Gemma 3's image part, which a text never reaches."""

_GEMMA3_TEXT_DEFAULTS = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131_072,
}
"""Published files with an image part leave out what is as transformers has it."""

Reader = Callable[[Fields], ModelConfig]


def read_hf_config(folder: SafetensorsFolder) -> ModelConfig:
    """The configuration of a folder. Raises ModelFileError for an unknown family, a key whose effect is not known, or
    an impossible shape."""
    fields = Fields(folder.path, "config.json ", folder.config)
    if fields.one_of("model_type", (*READERS, "gemma3")) == "gemma3":
        fields = _text_part(fields)
    config = READERS[fields.one_of("model_type", tuple(READERS))](fields)
    fields.refuse_rest(HARMLESS)
    return config


def _text_part(fields: Fields) -> Fields:
    """The text model inside a Gemma 3 that also takes images."""
    text = fields.take("text_config")
    if not isinstance(text, dict):
        raise fields.error("text_config", "an object", text)
    fields.one_of("tie_word_embeddings", (True,), True)
    fields.refuse_rest(HARMLESS | IMAGES)
    stated = {key: value for key, value in text.items() if value is not None}
    return Fields(
        fields.path, "config.json text_config ", _GEMMA3_TEXT_DEFAULTS | {"model_type": "gemma3_text"} | stated
    )


def _llama(fields: Fields) -> ModelConfig:
    return _with_attention_bias(fields, _base(fields, "llama"))


def _mistral(fields: Fields) -> ModelConfig:
    return _all_sliding(_base(fields, "mistral"), fields.optional_size("sliding_window", 4096))


def _mixtral(fields: Fields) -> ModelConfig:
    config = _all_sliding(_base(fields, "mixtral"), fields.optional_size("sliding_window"))
    experts = _experts(fields, fields.size("num_local_experts", 8), 2, config.ffn_size, normalise=True)
    return replace(config, experts=experts, layers=tuple(replace(layer, experts=True) for layer in config.layers))


def _qwen2(fields: Fields) -> ModelConfig:
    return replace(_last_sliding(fields, _base(fields, "qwen2")), qkv_bias=True)


def _qwen3(fields: Fields) -> ModelConfig:
    config = _with_attention_bias(fields, _base(fields, "qwen3", head_dim=128))
    return replace(_last_sliding(fields, config), qk_norm=True)


def _qwen3_moe(fields: Fields) -> ModelConfig:
    config = _all_sliding(_with_attention_bias(fields, _base(fields, "qwen3_moe")), _switched_window(fields))
    count = fields.size("num_experts" if "num_experts" in fields else "num_local_experts", 128)
    normalise, width = fields.flag("norm_topk_prob"), fields.size("moe_intermediate_size", 768)
    every, dense = fields.size("decoder_sparse_step", 1), fields.take("mlp_only_layers") or []
    if not isinstance(dense, list):
        raise fields.error("mlp_only_layers", "a list of layers", dense)
    layers = tuple(
        replace(layer, experts=index not in dense and (index + 1) % every == 0)
        for index, layer in enumerate(config.layers)
    )
    return replace(config, qk_norm=True, experts=_experts(fields, count, 8, width, normalise=normalise), layers=layers)


def _smollm3(fields: Fields) -> ModelConfig:
    config = _with_attention_bias(fields, _base(fields, "smollm3", tied=True))
    every = fields.size("no_rope_layer_interval", 4)
    given = fields.items("no_rope_layers", config.num_layers)
    turned = given or [(index + 1) % every for index in range(config.num_layers)]
    window = _switched_window(fields)
    sliding = _sliding_layers(fields, config, lambda index: window is not None and not turned[index])
    layers = tuple(
        LayerConfig(layer.rope if turned[index] else None, window if sliding[index] else None)
        for index, layer in enumerate(config.layers)
    )
    return replace(config, layers=layers)


def _gemma2(fields: Fields) -> ModelConfig:
    rope = read_rope(fields)
    return _gemma(fields, "gemma2", (rope, rope), every=2, attention_softcap=50.0, logit_softcap=30.0)


def _gemma3(fields: Fields) -> ModelConfig:
    ropes = read_local_global_ropes(fields, 10_000.0, 1_000_000.0)
    every = fields.optional_size("sliding_window_pattern") or fields.size("_sliding_window_pattern", 6)
    return replace(_gemma(fields, "gemma3", ropes, every=every), qk_norm=True)


def _gemma(
    fields: Fields,
    family: str,
    ropes: tuple[RopeConfig, RopeConfig],
    *,
    every: int,
    attention_softcap: float | None = None,
    logit_softcap: float | None = None,
) -> ModelConfig:
    """Both Gemmas: (local, global) rotary embeddings, each layer local but the last of `every`; default soft-caps."""
    config = _with_attention_bias(fields, _base(fields, family, head_dim=256, tied=True, rope=ropes[1]))
    window = fields.optional_size("sliding_window", 4096)
    sliding = _sliding_layers(fields, config, lambda index: (index + 1) % every != 0)
    return replace(
        config,
        layers=tuple(LayerConfig(ropes[0], window) if local else LayerConfig(ropes[1]) for local in sliding),
        query_scale=fields.number("query_pre_attn_scalar", 256) ** -0.5,
        embedding_scale=config.hidden_size**0.5,
        attention_softcap=fields.optional_number("attn_logit_softcapping", attention_softcap),
        logit_softcap=fields.optional_number("final_logit_softcapping", logit_softcap),
        post_norms=True,
        float32_norms=True,
    )


READERS: dict[str, Reader] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "smollm3": _smollm3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
}
"""By `model_type`."""


def _base(
    fields: Fields, family: str, *, head_dim: int | None = None, tied: bool = False, rope: RopeConfig | None = None
) -> ModelConfig:
    """What all families share: every layer sees everything, with one rotary embedding. `head_dim` and `tied` are the
    family's defaults; `rope` is given where it has a way of its own to state it."""
    hidden_size, num_heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    num_kv_heads = fields.size("num_key_value_heads", num_heads)
    head_dim = fields.size("head_dim", head_dim or max(hidden_size // num_heads, 1))
    check_attention_shape(fields.path, num_heads, num_kv_heads, head_dim)
    num_layers = check_num_layers(fields.path, fields.size("num_hidden_layers"))
    rope = rope or read_rope(fields)
    fields.one_of("mlp_bias", (False,), False)
    gemma = family.startswith("gemma")
    if gemma:
        fields.one_of("hidden_activation", ("gelu_pytorch_tanh",), "gelu_pytorch_tanh")
        fields.take("hidden_act")  # an older name, which transformers does not read
    else:
        fields.one_of("hidden_act", ("silu",), "silu")
    return ModelConfig(
        architecture=family,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        ffn_size=fields.size("intermediate_size"),
        vocab_size=fields.size("vocab_size"),
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        max_model_len=longest_context(fields.size("max_position_embeddings"), rope),
        tied_embeddings=fields.flag("tie_word_embeddings", tied),
        query_scale=head_dim**-0.5,
        layers=(LayerConfig(rope),) * num_layers,
        activation="gelu_tanh" if gemma else "silu",
    )


def _with_attention_bias(fields: Fields, config: ModelConfig) -> ModelConfig:
    bias = fields.flag("attention_bias")
    return replace(config, qkv_bias=bias, o_bias=bias)


def _experts(fields: Fields, count: int, per_token: int, ffn_size: int, *, normalise: bool) -> ExpertsConfig:
    per_token = fields.size("num_experts_per_tok", per_token)
    check_experts(fields.path, count, per_token)
    return ExpertsConfig(count, per_token, ffn_size, normalise)


def _switched_window(fields: Fields) -> int | None:
    """The sliding window where `use_sliding_window` turns it on."""
    window = fields.optional_size("sliding_window", 4096)
    return window if fields.flag("use_sliding_window") else None


def _all_sliding(config: ModelConfig, window: int | None) -> ModelConfig:
    return replace(config, layers=tuple(replace(layer, window=window) for layer in config.layers))


def _last_sliding(fields: Fields, config: ModelConfig) -> ModelConfig:
    """A window on the layers from `max_window_layers` on, as Qwen has it."""
    window = _switched_window(fields)
    first = fields.size("max_window_layers", 28) if window is not None else config.num_layers
    sliding = _sliding_layers(fields, config, lambda index: index >= first)
    layers = zip(config.layers, sliding, strict=True)
    return replace(config, layers=tuple(replace(layer, window=window if local else None) for layer, local in layers))


def _sliding_layers(fields: Fields, config: ModelConfig, default: Callable[[int], bool]) -> list[bool]:
    """Which layers slide: `layer_types`, or by their index where that is absent."""
    types = fields.items("layer_types", config.num_layers)
    if types is None:
        return [default(index) for index in range(config.num_layers)]
    for each in types:
        if each not in ("sliding_attention", "full_attention"):
            raise fields.error("layer_types", "sliding_attention or full_attention for each layer", each)
    return [each == "sliding_attention" for each in types]
