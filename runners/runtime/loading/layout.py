"""Where a model's weights lie in its files: the tensor's name for each role, and the shape each must have.

`check_tensors` holds a file against it before anything is read: a tensor that is missing, misshapen, or there without
a role is refused, as one that is passed over would change the result. Names are those of transformers' modules, and of
llama.cpp's converter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runners.runtime.gguf_file import GGUFFile
from runners.runtime.model_file import ModelFileError, TensorRecord, shown
from runners.runtime.models.config import ModelConfig, TableScaling
from runners.runtime.safetensors_folder import SafetensorsFolder

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Names by role, those of a layer with `{layer}` in them, those of one expert with `{expert}` too.

    `stacked_experts`: one tensor holds all experts of a layer, the first dimension counting them. `rotary_halves`: q
    and k pair row j of a head with row j + head_dim / 2, else neighbours. `norm_offset` is added to norms' weights.
    Tensors that end in `spare`, or begin with `foreign`, hold nothing that a text needs.
    """

    embedding: str
    head: str
    final_norm: str
    layer: Mapping[str, str]
    stacked_experts: bool
    rotary_halves: bool
    norm_offset: float
    spare: tuple[str, ...]
    foreign: tuple[str, ...] = ()

    def name(self, role: str, layer: int, expert: int = 0) -> str:
        return self.layer[role].format(layer=layer, expert=expert)


_HF_LAYER = {
    "attention_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "o_bias": "self_attn.o_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
    "router": "mlp.gate.weight",
    "expert_gate": "mlp.experts.{expert}.gate_proj.weight",
    "expert_up": "mlp.experts.{expert}.up_proj.weight",
    "expert_down": "mlp.experts.{expert}.down_proj.weight",
}

_HF_POST_NORMS = {
    "post_attention_norm": "post_attention_layernorm.weight",
    "ffn_norm": "pre_feedforward_layernorm.weight",
    "post_ffn_norm": "post_feedforward_layernorm.weight",
}

_HF_MIXTRAL = {
    "router": "block_sparse_moe.gate.weight",
    "expert_gate": "block_sparse_moe.experts.{expert}.w1.weight",
    "expert_up": "block_sparse_moe.experts.{expert}.w3.weight",
    "expert_down": "block_sparse_moe.experts.{expert}.w2.weight",
}

_HF_INSIDE_IMAGES = ("language_model.model.", "model.language_model.")
"""Where the text model lies inside one that also takes images, as published and as transformers 5 saves it."""

_HF_IMAGES = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.")

_GGUF_LAYER = {
    "attention_norm": "attn_norm.weight",
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "o": "attn_output.weight",
    "q_bias": "attn_q.bias",
    "k_bias": "attn_k.bias",
    "v_bias": "attn_v.bias",
    "o_bias": "attn_output.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "post_attention_norm": "post_attention_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "post_ffn_norm": "post_ffw_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
    "router": "ffn_gate_inp.weight",
    "expert_gate": "ffn_gate_exps.weight",
    "expert_up": "ffn_up_exps.weight",
    "expert_down": "ffn_down_exps.weight",
}

_GGUF_NEIGHBOURS = ("llama", "smollm3")
"""Architectures whose q and k the converter to GGUF reorders so that rotary pairs are neighbours."""


def layout_of(file: GGUFFile | SafetensorsFolder, config: ModelConfig) -> Layout:
    """The layout of a file of this configuration."""
    return gguf_layout(config) if isinstance(file, GGUFFile) else _hf_layout(config, file)


def check_tensors(file: GGUFFile | SafetensorsFolder, config: ModelConfig, layout: Layout) -> None:
    """Raises ModelFileError for the first tensor that is missing, has another shape, or has no role."""
    needed = dict(needed_tensors(config, layout)) | rope_tables(config)
    for name, shape in needed.items():
        record = file.tensors.get(name)
        if record is None or record.shape != shape:
            raise ModelFileError(file.path, f"tensor {name}", f"shape {shape}", _found(record))
    for name in file.tensors:
        if name not in needed and not name.endswith(layout.spare) and not name.startswith(layout.foreign):
            expected = f"no such tensor in a model of architecture {config.architecture}"
            raise ModelFileError(file.path, f"tensor {shown(name)}", expected, _found(file.tensors[name]))


def needed_tensors(config: ModelConfig, layout: Layout) -> Iterator[tuple[str, Shape]]:
    """(name, shape) of every tensor of weights, each once."""
    vocab_shape = (config.vocab_size, config.hidden_size)
    yield layout.embedding, vocab_shape
    for index in range(config.num_layers):
        yield from _layer_tensors(config, layout, index)
    yield layout.final_norm, (config.hidden_size,)
    if not config.tied_embeddings:
        yield layout.head, vocab_shape


def rope_tables(config: ModelConfig) -> dict[str, Shape]:
    """Names and shapes of the tensors that scale rotary embeddings."""
    scalings = [rope.scaling for rope in config.ropes]
    return {each.tensor: (config.head_dim // 2,) for each in scalings if isinstance(each, TableScaling)}


def _layer_tensors(config: ModelConfig, layout: Layout, index: int) -> Iterator[tuple[str, Shape]]:
    for role, shape in (_attention_shapes(config) | _norm_shapes(config)).items():
        yield layout.name(role, index), shape
    if config.experts is None or not config.layers[index].experts:
        for role, shape in _gated_shapes(config.hidden_size, config.ffn_size):
            yield layout.name(role, index), shape
        return
    count = config.experts.count
    yield layout.name("router", index), (count, config.hidden_size)
    for role, shape in _gated_shapes(config.hidden_size, config.experts.ffn_size):
        if layout.stacked_experts:
            yield layout.name(f"expert_{role}", index), (count, *shape)
            continue
        for expert in range(count):
            yield layout.name(f"expert_{role}", index, expert), shape


def _attention_shapes(config: ModelConfig) -> dict[str, Shape]:
    hidden, q_size, kv_size = config.hidden_size, config.q_size, config.kv_size
    shapes: dict[str, Shape] = {"q": (q_size, hidden), "k": (kv_size, hidden), "v": (kv_size, hidden)}
    shapes["o"] = (hidden, q_size)
    if config.qkv_bias:
        shapes |= {"q_bias": (q_size,), "k_bias": (kv_size,), "v_bias": (kv_size,)}
    if config.o_bias:
        shapes["o_bias"] = (hidden,)
    if config.qk_norm:
        shapes |= {"q_norm": (config.head_dim,), "k_norm": (config.head_dim,)}
    return shapes


def _norm_shapes(config: ModelConfig) -> dict[str, Shape]:
    roles = ["attention_norm", "ffn_norm"]
    roles += ["post_attention_norm", "post_ffn_norm"] if config.post_norms else []
    return dict.fromkeys(roles, (config.hidden_size,))


def _gated_shapes(hidden: int, ffn: int) -> tuple[tuple[str, Shape], ...]:
    return ("gate", (ffn, hidden)), ("up", (ffn, hidden)), ("down", (hidden, ffn))


def _hf_layout(config: ModelConfig, file: SafetensorsFolder) -> Layout:
    inside = next((each for each in _HF_INSIDE_IMAGES if f"{each}embed_tokens.weight" in file.tensors), None)
    prefix = inside or "model."
    names = _HF_LAYER | (_HF_POST_NORMS if config.post_norms else {})
    names |= _HF_MIXTRAL if config.architecture == "mixtral" else {}
    return Layout(
        embedding=f"{prefix}embed_tokens.weight",
        head="lm_head.weight",
        final_norm=f"{prefix}norm.weight",
        layer={role: f"{prefix}layers.{{layer}}.{name}" for role, name in names.items()},
        stacked_experts=False,
        rotary_halves=True,
        norm_offset=1.0 if config.architecture.startswith("gemma") else 0.0,
        spare=("rotary_emb.inv_freq", *(("lm_head.weight",) if config.tied_embeddings else ())),
        foreign=_HF_IMAGES if inside else (),
    )


def gguf_layout(config: ModelConfig) -> Layout:
    """Experts in one tensor a layer; it needs no file to tell the names."""
    return Layout(
        embedding="token_embd.weight",
        head="output.weight",
        final_norm="output_norm.weight",
        layer={role: f"blk.{{layer}}.{name}" for role, name in _GGUF_LAYER.items()},
        stacked_experts=True,
        rotary_halves=config.architecture not in _GGUF_NEIGHBOURS,
        norm_offset=0.0,
        spare=("attn_rot_embd.weight",),
    )


def _found(record: TensorRecord | None) -> str:
    return "nothing" if record is None else f"shape {record.shape}"
