"""A Llama of two thin layers with random weights, a byte-level vocabulary and a chat template, as a GGUF file.

Nearly all its tokens are single bytes, so that what it says is mostly broken UTF-8: the hardest text to stream.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

HIDDEN, HEADS, KV_HEADS, FFN, LAYERS, CONTEXT = 64, 4, 2, 128, 2, 2048
CONTROL = ["<|im_start|>", "<|im_end|>"]
MERGED = ["th"]
VOCAB_SIZE = 256 + len(CONTROL) + len(MERGED)
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_characters() -> list[str]:
    """GPT-2's printable character for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)]


def write_tiny_chat_model(path: Path, seed: int = 7, template: str = TEMPLATE) -> Path:
    writer = GGUFWriter(path, "llama")
    _add_shape(writer)
    _add_tokenizer(writer, template)
    random = np.random.default_rng(seed)
    for name, shape in _tensors().items():
        # Norms near one and the rest wide enough that the argmax is not a matter of rounding.
        values = random.normal(1.0, 0.1, shape) if len(shape) == 1 else random.normal(0.0, 0.3, shape)
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_shape(writer: GGUFWriter) -> None:
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)


def _add_tokenizer(writer: GGUFWriter, template: str) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*byte_characters(), *CONTROL, *MERGED])
    normal, control = TokenType.NORMAL, TokenType.CONTROL
    writer.add_token_types([normal] * 256 + [control] * len(CONTROL) + [normal] * len(MERGED))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_chat_template(template)


def _tensors() -> dict[str, tuple[int, ...]]:
    kv = HIDDEN // HEADS * KV_HEADS
    tensors: dict[str, tuple[int, ...]] = {"token_embd": (VOCAB_SIZE, HIDDEN), "output_norm": (HIDDEN,)}
    for index in range(LAYERS):
        block = f"blk.{index}"
        tensors |= {
            f"{block}.attn_norm": (HIDDEN,),
            f"{block}.attn_q": (HIDDEN, HIDDEN),
            f"{block}.attn_k": (kv, HIDDEN),
            f"{block}.attn_v": (kv, HIDDEN),
            f"{block}.attn_output": (HIDDEN, HIDDEN),
            f"{block}.ffn_norm": (HIDDEN,),
            f"{block}.ffn_gate": (FFN, HIDDEN),
            f"{block}.ffn_up": (FFN, HIDDEN),
            f"{block}.ffn_down": (HIDDEN, FFN),
        }
    return tensors
