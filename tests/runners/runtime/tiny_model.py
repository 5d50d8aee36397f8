"""Writes a small random Llama as a GGUF file, with a real byte-pair vocabulary and a chat template.

Any text can be encoded (all 256 bytes are tokens); some merges give tokens of several bytes, one of which ends inside
a character. The weights are scaled so that greedy output wanders instead of repeating one token.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@dataclass(frozen=True)
class TinyModel:
    """The shape and format of the model to write. `weight_type` is a gguf type whose blocks divide the shapes."""

    seed: int = 0
    num_layers: int = 2
    hidden_size: int = 64
    num_heads: int = 4
    num_kv_heads: int = 2
    ffn_size: int = 96
    max_model_len: int = 2048
    weight_type: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32
    tied_embeddings: bool = False


def byte_characters() -> list[str]:
    """GPT-2's printable character for each byte 0 … 255."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def vocabulary() -> tuple[list[str], list[int], list[str]]:
    """(tokens, token types, merges)."""
    byte = byte_characters()
    space = byte[0x20]
    pairs = [("t", "h"), ("th", "e"), (space, "the"), ("a", "n"), ("an", "d"), (space, "and"), ("i", "n"), ("e", "r")]
    pairs += [(byte[0xF0], byte[0x9F]), (byte[0xC3], byte[0xA9]), (byte[0xE2], byte[0x82])]
    tokens = [*CONTROL_TOKENS, *byte, *(left + right for left, right in pairs)]
    types = [3] * len(CONTROL_TOKENS) + [1] * (len(tokens) - len(CONTROL_TOKENS))
    return tokens, types, [f"{left} {right}" for left, right in pairs]


def write_tiny_model(path: Path, model: TinyModel | None = None, *, without: str = "") -> Path:
    """Write the model; `without` names a tensor to leave out."""
    model = model or TinyModel()
    writer = gguf.GGUFWriter(path, "llama")
    _add_metadata(writer, model)
    for name, values in random_tensors(model).items():
        if name == without:
            continue
        kind = gguf.GGMLQuantizationType.F32 if values.ndim == 1 else model.weight_type
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def random_tensors(model: TinyModel) -> dict[str, np.ndarray]:
    """Tensor name → float32 values, the same for the same seed."""
    draw = np.random.default_rng(model.seed)
    hidden, ffn, head_dim = model.hidden_size, model.ffn_size, model.hidden_size // model.num_heads
    vocab = len(vocabulary()[0])

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (draw.standard_normal((rows, columns)) * 1.5 / np.sqrt(columns)).astype(np.float32)

    def norm() -> np.ndarray:
        return (1 + 0.2 * draw.standard_normal(hidden)).astype(np.float32)

    tensors = {"token_embd.weight": draw.standard_normal((vocab, hidden)).astype(np.float32)}
    for layer in range(model.num_layers):
        block = f"blk.{layer}"
        tensors[f"{block}.attn_norm.weight"] = norm()
        tensors[f"{block}.attn_q.weight"] = matrix(hidden, hidden)
        tensors[f"{block}.attn_k.weight"] = matrix(model.num_kv_heads * head_dim, hidden)
        tensors[f"{block}.attn_v.weight"] = matrix(model.num_kv_heads * head_dim, hidden)
        tensors[f"{block}.attn_output.weight"] = matrix(hidden, hidden)
        tensors[f"{block}.ffn_norm.weight"] = norm()
        tensors[f"{block}.ffn_gate.weight"] = matrix(ffn, hidden)
        tensors[f"{block}.ffn_up.weight"] = matrix(ffn, hidden)
        tensors[f"{block}.ffn_down.weight"] = matrix(hidden, ffn)
    tensors["output_norm.weight"] = norm()
    if not model.tied_embeddings:
        tensors["output.weight"] = matrix(vocab, hidden)
    return tensors


def _add_metadata(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    writer.add_context_length(model.max_model_len)
    writer.add_embedding_length(model.hidden_size)
    writer.add_block_count(model.num_layers)
    writer.add_feed_forward_length(model.ffn_size)
    writer.add_head_count(model.num_heads)
    writer.add_head_count_kv(model.num_kv_heads)
    writer.add_rope_dimension_count(model.hidden_size // model.num_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens, types, merges = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
