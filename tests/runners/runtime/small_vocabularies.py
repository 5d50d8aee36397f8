"""Small vocabularies trained here and now, byte-level and SentencePiece, and GGUF files that hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import gguf
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's 12345 o'clock; don't you'll they've HELLO World!",
    "def add(first, second):\n    return first + second\n\n\n  x = [1, 2]  # indented\tcode\r\n\r\n",
    "été déjà vu naïve Straße, ǅemal И́ван; 東京都 日本語のテキスト 🙂🙂 한국어 ١٢٣ ५६",
    "https://example.org/a/b?c=d&e=f 3.14159 1,000,000 ...!!! --- //// CamelCaseWords and HTTPServer",
] * 5

HARD_TEXTS = [
    "", " ", "  ", "\n", "\n\n \n", "\r\n", "a", " a", "a ", "  two  spaces  ", "It's he'LL don'T", "1234567", "x1y22z",
    "été", "e\u0301te\u0301", "🙂", "👩‍👩‍👧", "ＦＵＬＬ", "ǅ", "\u00a0nbsp\u2003em", "!!!\n\n", "a/b//c/\n", "▁", "a▁b",
    "tab\there", "<0x0A>", "ſ", "İ", "日本", "\u200b", "\x00", "\ufffd", "foo(bar)[baz]{qux}", "A B  C   D", "ABc aBC",
]  # fmt: skip


def texts() -> st.SearchStrategy[str]:
    """Texts of what these vocabularies know mixed with what nobody expects."""
    known = st.sampled_from([word for line in CORPUS[:4] for word in line.split(" ")] + [" ", "  ", "\n", "'s", "12"])
    odd = st.text(st.characters(codec="utf-8"), max_size=4)
    return st.lists(known | odd, max_size=12).map("".join) | st.lists(known, max_size=8).map(" ".join)


@cache
def byte_level() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(tokens, merges) of a byte-level vocabulary that knows every byte."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet))
    merges = json.loads(tokenizer.model.__getstate__())["merges"]
    return in_order(tokenizer), tuple(" ".join(pair) for pair in merges)


@cache
def pieces(*, with_bytes: bool = True) -> tuple[tuple[str, ...], tuple[float, ...], tuple[int, ...]]:
    """(tokens, scores, types) of a SentencePiece vocabulary: <unk>, <s>, </s>, the bytes, then pieces by rank."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=500))
    single = [text for text in in_order(tokenizer) if len(text) == 1]
    merged = [text for text in in_order(tokenizer) if len(text) > 1]
    lead = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256) if with_bytes)]
    tokens = (*lead, *merged, *single)
    scores = (*(0.0 for _ in lead), *(-float(rank) for rank in range(len(tokens) - len(lead))))
    types = (UNKNOWN, CONTROL, CONTROL, *(BYTE for _ in lead[3:]), *(NORMAL for _ in tokens[len(lead) :]))
    return tokens, scores, types


def in_order(tokenizer: Tokenizer) -> tuple[str, ...]:
    vocab: dict[str, int] = tokenizer.get_vocab()
    return tuple(sorted(vocab, key=vocab.__getitem__))


def write_vocabulary(path: Path, fields: Mapping[str, object], architecture: str = "llama") -> Path:
    """A GGUF file that holds a vocabulary alone. Keys lack `tokenizer.ggml.` (`chat_template…`: `tokenizer.`)."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in fields.items():
        key = f"tokenizer.{name}" if name.startswith("chat_template") else f"tokenizer.ggml.{name}"
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case str():
                writer.add_string(key, value)
            case list() | tuple():
                writer.add_array(key, list(value))
            case _:
                raise TypeError(f"{name}: {type(value)}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
