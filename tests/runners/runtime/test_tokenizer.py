"""Encoding, decoding and chat templates, on the tiny vocabulary and on the sample model's."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import vocabulary, write_tiny_model
from tokenizers import Tokenizer as ReferenceTokenizer
from tokenizers import decoders, models, pre_tokenizers

from runners.runtime.gguf_file import ModelFileError
from runners.runtime.tokenizer import TextError, Tokenizer

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi 42!"}]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_path(write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf"))


@pytest.fixture(scope="module")
def smollm2(sample_model: Path) -> Tokenizer:
    return Tokenizer.from_path(sample_model)


def with_metadata(tmp_path: Path, **fields: object) -> Path:
    """A file that holds a vocabulary alone, with fields of `tokenizer.ggml.` left out (None) or set."""
    tokens, types, merges = vocabulary()
    values = {"model": "gpt2", "pre": "smollm", "tokens": tokens, "token_type": types, "merges": merges}
    writer = gguf.GGUFWriter(tmp_path / "vocabulary.gguf", "llama")
    for name, value in (values | {"eos_token_id": 2} | fields).items():
        key = f"tokenizer.{name}" if name == "chat_template" else f"tokenizer.ggml.{name}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "vocabulary.gguf"


@cache
def known_bytes(tokenizer: Tokenizer) -> frozenset[int]:
    """The sample model's vocabulary lacks some bytes, such as 0xF1; the reference drops them as well."""
    return frozenset(byte for token in range(tokenizer.vocab_size) for byte in tokenizer.token_bytes(token))


@given(st.text())
def test_any_text_survives_encoding(tiny: Tokenizer, text: str) -> None:
    ids = tiny.encode(text)
    assert tiny.decode(ids) == text
    assert b"".join(tiny.token_bytes(token) for token in ids) == text.encode()


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_any_text_survives_the_sample_model_and_agrees_with_the_reference(
    smollm2: Tokenizer, reference: ReferenceTokenizer, text: str
) -> None:
    ids = smollm2.encode(text)
    assert ids == reference.encode(text).ids
    known = known_bytes(smollm2)
    assert smollm2.decode(ids) == text or not set(text.encode()) <= known


@pytest.fixture(scope="module")
def reference(sample_model: Path) -> ReferenceTokenizer:
    """The sample model's byte-pair encoder as Hugging Face's own `tokenizer.json` sets it up, read by `gguf`."""
    fields = gguf.GGUFReader(sample_model).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = ReferenceTokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_the_sample_model_encodes_known_text(smollm2: Tokenizer) -> None:
    assert smollm2.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert smollm2.encode("2024") == [34, 32, 34, 36]
    assert smollm2.eos_ids == (2,)
    assert smollm2.vocab_size == 49152


def test_bytes_of_a_character_may_lie_in_several_tokens(tiny: Tokenizer) -> None:
    ids = tiny.encode("🙂")
    pieces = [tiny.token_bytes(token) for token in ids]
    assert len(pieces) == 3
    assert b"".join(pieces) == "🙂".encode()
    assert tiny.decode(ids[:2]) == "\ufffd"


def test_a_control_token_in_text_becomes_that_token_and_has_no_bytes(tiny: Tokenizer) -> None:
    ids = tiny.encode("a<|im_end|>b")
    assert 2 in ids
    assert tiny.token_bytes(2) == b""
    assert tiny.decode(ids) == "ab"


def test_the_chat_template_of_the_file_is_used(tiny: Tokenizer, smollm2: Tokenizer) -> None:
    expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi 42!<|im_end|>\n"
    for tokenizer in (tiny, smollm2):
        assert tokenizer.apply_chat_template(CHAT, add_generation_prompt=False) == expected
        assert tokenizer.apply_chat_template(CHAT) == expected + "<|im_start|>assistant\n"


def test_a_model_without_a_template_says_so(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_path(with_metadata(tmp_path))
    assert not tokenizer.has_chat_template
    with pytest.raises(TextError, match="no chat template"):
        tokenizer.apply_chat_template(CHAT)


def test_the_start_token_comes_first_where_the_model_asks_for_it(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_path(with_metadata(tmp_path, bos_token_id=1, add_bos_token=True))
    assert tokenizer.encode("") == [1]
    assert tokenizer.encode("", add_special=False) == []


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"model": "bert"}, "tokenizer.ggml.model"),
        ({"pre": "bloom"}, "tokenizer.ggml.pre"),
        ({"tokens": None}, "tokenizer.ggml.tokens"),
        ({"merges": ["q zzz"]}, "tokenizer.ggml.merges"),
        ({"merges": ["lonely"]}, "tokenizer.ggml.merges"),
        ({"token_type": [1, 1]}, "tokenizer.ggml.token_type"),
        ({"chat_template": "{% for %}"}, "chat template"),
    ],
)
def test_an_unusable_vocabulary_is_named(tmp_path: Path, fields: dict[str, object], part: str) -> None:
    with pytest.raises(ModelFileError) as error:
        Tokenizer.from_path(with_metadata(tmp_path, **fields))
    assert part in error.value.part


def test_text_that_is_no_unicode_is_refused(tiny: Tokenizer) -> None:
    with pytest.raises(TextError, match="valid Unicode"):
        tiny.encode("a\ud800b")


@pytest.mark.parametrize("token_id", [-1, 270, 10**9])
def test_a_token_id_outside_the_vocabulary_is_refused(tiny: Tokenizer, token_id: int) -> None:
    with pytest.raises(TextError, match=r"expected 0 … \d+"):
        tiny.token_bytes(token_id)
