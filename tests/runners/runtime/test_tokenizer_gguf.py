"""Vocabularies in GGUF files: each family's way of cutting text against transformers' reading of the same file."""

from __future__ import annotations

import os
import unicodedata
from itertools import pairwise
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing here is to be looked for elsewhere

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_vocabularies import (
    CONTROL,
    HARD_TEXTS,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    byte_level,
    pieces,
    texts,
    write_vocabulary,
)
from tokenizers import Tokenizer as PlainTokenizer
from tokenizers import models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from runners.runtime.gguf_file import ModelFileError
from runners.runtime.tokenizer import TextError, Tokenizer

del os.environ["HF_HUB_OFFLINE"]  # read by now; tests of the hub start processes that must not inherit it

LOADED = {
    "llama-bpe": "llama", "smaug-bpe": "llama", "qwen2": "qwen2", "deepseek-r1-qwen": "qwen2", "tekken": "llama",
    "gpt-2": "gpt2",
}  # fmt: skip
"""Each `tokenizer.ggml.pre` with an architecture under which transformers reads it."""


def byte_fields(pre: str | None = "gpt-2") -> dict[str, object]:
    tokens, merges = byte_level()
    special = ("<|im_start|>", "<|im_end|>", "<tool_call>", "[PAD0]")
    types = [NORMAL] * len(tokens) + [CONTROL, CONTROL, USER_DEFINED, UNUSED]
    fields: dict[str, object] = {"model": "gpt2", "tokens": [*tokens, *special], "token_type": types, "merges": merges}
    end = len(tokens) + 1
    return fields | {"bos_token_id": end - 1, "eos_token_id": end} | ({} if pre is None else {"pre": pre})


def piece_fields(**more: object) -> dict[str, object]:
    tokens, scores, types = pieces()
    fields: dict[str, object] = {"model": "llama", "tokens": tokens, "scores": scores, "token_type": types}
    return fields | {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0} | more


def read(path: Path, fields: dict[str, object], architecture: str = "llama") -> Tokenizer:
    return Tokenizer.from_path(write_vocabulary(path / "m.gguf", fields, architecture))


@pytest.fixture(scope="module", params=LOADED)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, PreTrainedTokenizerBase]:
    folder = tmp_path_factory.mktemp("family")
    ours = read(folder, byte_fields(request.param), LOADED[request.param])
    return ours, AutoTokenizer.from_pretrained(folder, gguf_file="m.gguf")


def composed(text: str) -> str:
    """Qwen's own tokenizer composes characters first, transformers' reading of a GGUF file leaves that out."""
    return unicodedata.normalize("NFC", text)


@settings(max_examples=60)
@given(text=texts() | st.sampled_from(HARD_TEXTS))
def test_text_is_cut_as_transformers_cuts_it(pair: tuple[Tokenizer, PreTrainedTokenizerBase], text: str) -> None:
    ours, theirs = pair
    text = composed(text)
    assert ours.encode(text, add_special=False) == theirs.encode(text, add_special_tokens=False)


def test_hard_texts_are_cut_as_transformers_cuts_them(pair: tuple[Tokenizer, PreTrainedTokenizerBase]) -> None:
    ours, theirs = pair
    for text in [*map(composed, HARD_TEXTS), "a<|im_end|>b<tool_call> c", "<|im_start|><|im_end|>"]:
        assert ours.encode(text, add_special=False) == theirs.encode(text, add_special_tokens=False), text


def test_qwen_composes_characters_first(tmp_path: Path) -> None:
    ours = read(tmp_path, byte_fields("qwen2"))
    assert ours.encode("e\u0301te\u0301") == ours.encode("\u00e9t\u00e9")
    assert ours.longest_token_bytes * len(ours.encode("e\u0301" * 50)) >= 150


def test_smollm_puts_every_digit_apart(tmp_path: Path) -> None:
    fields = byte_fields("smollm")
    plain = PlainTokenizer(
        models.BPE(vocab_of(fields), [(merge.split(" ")[0], merge.split(" ")[1]) for merge in byte_level()[1]])
    )
    digits = pre_tokenizers.Digits(individual_digits=True)
    plain.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    ours = read(tmp_path, fields)
    for text in HARD_TEXTS:
        assert ours.encode(text) == plain.encode(text).ids, text


def vocab_of(fields: dict[str, object]) -> dict[str, int]:
    tokens = fields["tokens"]
    assert isinstance(tokens, list)
    return {token: index for index, token in enumerate(tokens)}


@pytest.mark.parametrize("pre", [*LOADED, "smollm", "default", None])
def test_the_bytes_of_the_tokens_are_the_text(tmp_path: Path, pre: str | None) -> None:
    ours = read(tmp_path, byte_fields(pre))
    for text in [text for text in HARD_TEXTS if "\u0301" not in text]:
        ids = ours.encode(text, add_special=False)
        assert b"".join(map(ours.token_bytes, ids)) == text.encode()
        assert ours.decode(ids) == text
        assert len(text.encode()) <= len(ids) * ours.longest_token_bytes


@pytest.mark.parametrize(
    ("pre", "flag", "starts"),
    [
        ("llama-bpe", None, True),
        ("tekken", None, True),
        ("qwen2", None, False),
        ("qwen2", True, True),
        ("tekken", False, False),
    ],
)
def test_a_family_has_a_start_token_unless_the_file_says_otherwise(
    tmp_path: Path, pre: str, flag: bool | None, starts: bool
) -> None:
    ours = read(tmp_path, byte_fields(pre) | ({} if flag is None else {"add_bos_token": flag}))
    assert ours.encode("a", add_special=True) == ([ours.bos_id] if starts else []) + ours.encode("a", add_special=False)


def test_an_end_token_is_added_where_the_file_asks_for_it(tmp_path: Path) -> None:
    ours = read(tmp_path, byte_fields("qwen2") | {"add_eos_token": True})
    assert ours.encode("a")[-1] == ours.eos_ids[0]
    assert ours.encode("a", add_special=False)[-1] != ours.eos_ids[0]


def test_the_ends_of_a_turn_are_ends_whether_or_not_the_file_says_so(tmp_path: Path) -> None:
    fields = byte_fields("qwen2")
    ours = read(tmp_path, fields | {"eos_token_id": 0})
    assert ours.eos_ids == (0, vocab_of(fields)["<|im_end|>"])


def test_control_tokens_have_a_spelling_and_no_bytes(tmp_path: Path) -> None:
    fields = byte_fields("qwen2")
    ours, ids = read(tmp_path, fields), vocab_of(fields)
    end, call, unused = ids["<|im_end|>"], ids["<tool_call>"], ids["[PAD0]"]
    assert (ours.token_bytes(end), ours.token_bytes(end, skip_special=False)) == (b"", b"<|im_end|>")
    assert (ours.token_text(end), ours.token_id("<|im_end|>"), end in ours.special_ids) == ("<|im_end|>", end, True)
    assert (ours.token_bytes(call), call in ours.special_ids) == (b"<tool_call>", False)
    assert ours.token_bytes(unused) == b""
    assert ours.token_id("<absent>") is None
    assert ours.decode([end, call], skip_special=False) == "<|im_end|><tool_call>"


@pytest.fixture(scope="module", params=[True, False], ids=["prefix", "no prefix"])
def sentence_piece(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, bool]:
    folder = tmp_path_factory.mktemp("pieces")
    return read(folder, piece_fields(add_space_prefix=request.param)), request.param


def best_pairs_first(text: str, prefix: bool) -> list[int]:
    """SentencePiece's rule, written down plainly: join the adjacent two whose piece scores highest, leftmost first."""
    tokens, scores, types = pieces()
    rank = {token: score for token, score, kind in zip(tokens, scores, types, strict=True) if kind == NORMAL}
    symbols = list(("▁" + text if prefix and text else text).replace(" ", "▁"))
    while True:
        joined = [
            (-rank[left + right], at) for at, (left, right) in enumerate(pairwise(symbols)) if left + right in rank
        ]
        if not joined:
            break
        _, at = min(joined)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    ids: list[int] = []
    for symbol in symbols:
        ids += [tokens.index(symbol)] if symbol in rank else [3 + byte for byte in symbol.encode()]
    return ids


@settings(max_examples=150)
@given(text=texts() | st.sampled_from(HARD_TEXTS))
def test_pieces_are_joined_by_score_and_the_rest_is_bytes(sentence_piece: tuple[Tokenizer, bool], text: str) -> None:
    ours, prefix = sentence_piece
    ids = ours.encode(text, add_special=False)
    assert ids == best_pairs_first(text, prefix)
    assert ours.decode(ids) == text.replace("▁", " ")
    expected = (" " if prefix and text else "") + text.replace("▁", " ")
    assert b"".join(map(ours.token_bytes, ids)) == expected.encode()


@pytest.mark.parametrize(("architecture", "prefix"), [("llama", True), ("gemma3", False)])
def test_pieces_are_those_of_transformers_reading_of_the_file(tmp_path: Path, architecture: str, prefix: bool) -> None:
    ours = read(tmp_path, piece_fields(add_space_prefix=prefix), architecture)
    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    for text in [*HARD_TEXTS, "The quick brown fox", "été déjà vu  naïve", "x = [1, 2]\n\n", "unseen wörds ȸ"]:
        if prefix and text.startswith((" ", "▁")):
            continue  # SentencePiece puts a space before these too; transformers' class does not
        assert ours.encode(text, add_special=False) == theirs.encode(text, add_special_tokens=False), text
        assert ours.encode(text) == [1, *ours.encode(text, add_special=False)]


def test_a_byte_token_is_that_byte(tmp_path: Path) -> None:
    ours = read(tmp_path, piece_fields())
    assert ours.token_bytes(3 + 0xF0) == b"\xf0"
    assert ours.token_text(3 + 0x0A) == "<0x0A>"
    ids = ours.encode("ȸ", add_special=False)
    assert [ours.token_bytes(i) for i in ids] == [b" ", b"\xc8", b"\xb8"]
    assert ours.decode(ids[:2]) == "\ufffd"


def test_user_defined_spaces_are_matched_as_they_stand(tmp_path: Path) -> None:
    tokens, scores, types = pieces()
    fields = piece_fields(add_space_prefix=False) | {
        "tokens": [*tokens, "   ", "\t\t"],
        "scores": [*scores, 0.0, 0.0],
        "token_type": [*types, USER_DEFINED, USER_DEFINED],
    }
    ours = read(tmp_path, fields)
    assert ours.encode("   ", add_special=False) == [len(tokens)]
    assert len(tokens) + 1 in ours.encode("a\t\tb", add_special=False)
    assert ours.decode(ours.encode("a   b\t\tc", add_special=False)) == "a   b\t\tc"


def test_a_vocabulary_without_bytes_says_that_a_token_may_stand_for_any_text(tmp_path: Path) -> None:
    tokens, scores, types = pieces(with_bytes=False)
    ours = read(tmp_path, piece_fields() | {"tokens": tokens, "scores": scores, "token_type": types})
    assert ours.encode("ȸȸȸȸ", add_special=False)[-1] == 0
    assert ours.longest_token_bytes >= 1 << 20


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"scores": [1.0]}, "scores"), ({"tokens": [1, 2]}, "tokens"), ({"token_type": [1.0, 2.0]}, "token_type"),
        ({"add_space_prefix": 1}, "add_space_prefix"), ({"add_bos_token": "yes"}, "add_bos_token"),
        ({"scores": [float("nan")] * len(pieces()[0])}, "scores"), ({"model": "t5"}, "model"), ({"model": 5}, "model"),
    ],
)  # fmt: skip
def test_an_unusable_vocabulary_of_pieces_is_named(tmp_path: Path, change: dict[str, object], part: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        read(tmp_path, piece_fields() | change)
    assert caught.value.part == f"metadata tokenizer.ggml.{part}"


def test_special_ids_outside_the_vocabulary_are_none(tmp_path: Path) -> None:
    ours = read(tmp_path, byte_fields("qwen2") | {"bos_token_id": 10**9, "eos_token_id": 10**9, "add_bos_token": True})
    assert ours.bos_id is None
    assert ours.encode("a") == ours.encode("a", add_special=False)


def test_named_chat_templates_stand_beside_the_default(tmp_path: Path) -> None:
    fields = byte_fields("qwen2") | {"chat_template": "plain", "chat_template.tool_use": "with {{ tools|length }}"}
    ours = read(tmp_path, fields)
    assert ours.apply_chat_template([]) == "plain"
    assert ours.apply_chat_template([], tools=[{"type": "function"}]) == "with 1"


odd_words = st.text(st.sampled_from("ab▁ <>é\x00"), max_size=3) | st.sampled_from(["<0x0A>", "<unk>", "ab", "a", "b"])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    model=st.sampled_from(["gpt2", "llama"]),
    tokens=st.lists(odd_words, min_size=1, max_size=8),
    types=st.lists(st.integers(0, 9), min_size=8, max_size=8),
    scores=st.lists(st.floats(width=32, allow_nan=False), min_size=8, max_size=8),
    merges=st.lists(st.text(st.sampled_from("ab▁ "), min_size=1, max_size=4), min_size=1, max_size=5),
    unknown=st.integers(0, 20),
)
def test_an_odd_vocabulary_works_or_is_refused(
    tmp_path: Path,
    model: str,
    tokens: list[str],
    types: list[int],
    scores: list[float],
    merges: list[str],
    unknown: int,
) -> None:
    fields = {
        "model": model, "tokens": tokens, "token_type": types[: len(tokens)], "scores": scores[: len(tokens)],
        "merges": merges, "unknown_token_id": unknown,
    }  # fmt: skip
    try:
        ours = read(tmp_path, fields)
    except ModelFileError as error:
        assert error.part.startswith("metadata tokenizer.ggml.")
        return
    for text in ("", "a b", "ab<unk>▁é", "🙂"):
        try:
            ids = ours.encode(text)
        except TextError:
            continue
        assert isinstance(ours.decode(ids), str)
