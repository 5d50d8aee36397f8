"""Tokenizers in Hugging Face folders against transformers' own reading of them, and folders that can't be used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing here is to be looked for elsewhere

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_vocabularies import HARD_TEXTS, byte_level, pieces, texts
from tokenizers import AddedToken
from transformers import AutoTokenizer, GemmaTokenizer, LlamaTokenizer, PreTrainedTokenizerBase, Qwen2Tokenizer

from runners.runtime.model_file import ModelFileError
from runners.runtime.tokenizer import Tokenizer

del os.environ["HF_HUB_OFFLINE"]  # read by now; tests of the hub start processes that must not inherit it

TEMPLATE = (
    "{{ bos_token }}{% if tools %}<tools>{{ tools | tojson }}</tools>\n{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{% generation %}{{ message['content'] }}"
    "{% endgeneration %}<|im_end|>\n{% if loop.last and enable_thinking is defined %}{{ enable_thinking }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ünïcode <b> & 'quotes' 42!"}]
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "The <weather> & “more”", "parameters": {}}}
]


def qwen2() -> PreTrainedTokenizerBase:
    tokens, merges = byte_level()
    vocab = {token: index for index, token in enumerate([*tokens, "<|endoftext|>"])}
    pairs: list[Any] = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Qwen2Tokenizer(vocab=vocab, merges=pairs)
    tokenizer.add_tokens([AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def piece_vocabulary() -> tuple[dict[str, int], list[Any]]:
    tokens, _, _ = pieces()
    vocab = {token: index for index, token in enumerate(tokens)}
    cuts = [(token[:cut], token[cut:]) for token in tokens[259:] for cut in range(len(token) - 1, 0, -1)]
    return vocab, [(left, right) for left, right in cuts if left in vocab and right in vocab]


def llama() -> PreTrainedTokenizerBase:
    vocab, merges = piece_vocabulary()
    tokenizer = LlamaTokenizer(vocab=vocab, merges=merges, add_bos_token=True, add_eos_token=True)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def gemma() -> PreTrainedTokenizerBase:
    vocab, merges = piece_vocabulary()
    renamed = {"<s>": "<bos>", "</s>": "<eos>"}
    vocab = {renamed.get(token, token): index for token, index in vocab.items()} | {"<pad>": len(vocab)}
    tokenizer = GemmaTokenizer(vocab=vocab, merges=merges, mask_token="<pad>", add_bos_token=True)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture(scope="module", params=[qwen2, llama, gemma], ids=lambda make: make.__name__)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, PreTrainedTokenizerBase]:
    folder = tmp_path_factory.mktemp("folder")
    request.param().save_pretrained(folder)
    return Tokenizer.from_path(folder), AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    qwen2().save_pretrained(tmp_path)
    return tmp_path


@settings(max_examples=80)
@given(text=texts() | st.sampled_from(HARD_TEXTS))
def test_text_is_encoded_and_decoded_as_transformers_does(
    pair: tuple[Tokenizer, PreTrainedTokenizerBase], text: str
) -> None:
    ours, theirs = pair
    for special in (True, False):
        assert ours.encode(text, add_special=special) == theirs.encode(text, add_special_tokens=special)
    ids = ours.encode(text)
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert len(text.encode()) <= len(ids) * ours.longest_token_bytes


def test_special_tokens_are_those_of_transformers(pair: tuple[Tokenizer, PreTrainedTokenizerBase]) -> None:
    ours, theirs = pair
    assert ours.bos_id == theirs.bos_token_id
    assert ours.eos_ids == (theirs.eos_token_id,)
    assert ours.special_ids >= set(theirs.all_special_ids)
    assert ours.vocab_size == len(theirs)
    for token_id in range(ours.vocab_size):
        assert ours.token_text(token_id) == theirs.convert_ids_to_tokens(token_id)


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("prompt", [True, False])
def test_chats_are_rendered_as_transformers_renders_them(
    pair: tuple[Tokenizer, PreTrainedTokenizerBase], tools: list[dict[str, Any]] | None, prompt: bool
) -> None:
    ours, theirs = pair
    for more in ({}, {"enable_thinking": False}):
        options: dict[str, Any] = {"tools": tools, "add_generation_prompt": prompt, "tokenize": False, **more}
        expected = theirs.apply_chat_template(CHAT, **options)
        assert ours.apply_chat_template(CHAT, tools, prompt, **more) == expected


def test_names_that_the_chat_itself_sets_are_refused(folder: Path) -> None:
    ours = Tokenizer.from_path(folder)
    with pytest.raises(ValueError, match="bos_token can't be set"):
        ours.apply_chat_template(CHAT, bos_token="x")


def test_templates_in_files_win_over_the_configuration(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("from a file")
    more = folder / "additional_chat_templates"
    more.mkdir()
    (more / "tool_use.jinja").write_text("for tools")
    ours = Tokenizer.from_path(folder)
    assert ours.apply_chat_template(CHAT) == "from a file"
    assert ours.apply_chat_template(CHAT, TOOLS) == "for tools"


def test_a_list_of_named_templates_is_understood(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    named = [{"name": "rag", "template": "rag"}, {"name": "tool_use", "template": "tools"}]
    change(folder / "tokenizer_config.json", chat_template=named)
    ours = Tokenizer.from_path(folder)
    assert ours.apply_chat_template(CHAT, TOOLS) == "tools"
    with pytest.raises(ValueError, match="no default chat template, only rag, tool_use"):
        ours.apply_chat_template(CHAT)


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | fields))


def test_the_ends_of_a_text_are_gathered_from_all_files(folder: Path) -> None:
    ours = Tokenizer.from_path(folder)
    end, start = ours.token_id("<|im_end|>"), ours.token_id("<|im_start|>")
    change(folder / "generation_config.json", eos_token_id=[end, 5])
    change(folder / "config.json", eos_token_id=start)
    assert Tokenizer.from_path(folder).eos_ids == (end, 5, start)


def test_rows_of_the_model_without_an_entry_stand_for_nothing(folder: Path) -> None:
    known = Tokenizer.from_path(folder).vocab_size
    change(folder / "config.json", vocab_size=known + 10)
    ours = Tokenizer.from_path(folder)
    assert ours.vocab_size == known + 10
    assert ours.token_bytes(known + 9) == b""


def test_tokens_for_tools_have_bytes_and_control_tokens_none(folder: Path) -> None:
    ours = Tokenizer.from_path(folder)
    assert ours.decode(ours.encode("<tool_call>{}<|im_end|>")) == "<tool_call>{}"
    assert ours.decode(ours.encode("<tool_call>{}<|im_end|>"), skip_special=False) == "<tool_call>{}<|im_end|>"


def test_a_files_own_truncation_and_padding_are_set_aside(folder: Path) -> None:
    change(
        folder / "tokenizer.json",
        truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        padding={
            "strategy": {"Fixed": 30}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "!",
        },
    )  # fmt: skip
    ours = Tokenizer.from_path(folder)
    assert ours.decode(ours.encode("The quick brown fox jumps")) == "The quick brown fox jumps"


def write(name: str, content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def changed(name: str, **fields: object) -> Callable[[Path], object]:
    return lambda folder: change(folder / name, **fields)


def only_a_sentence_piece_model(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "tokenizer.model")


POST_PROCESSOR: dict[str, object] = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [4_000_000_000], "tokens": ["<s>"]}},
}
"""Puts a start token first, under an id that no vocabulary has."""

UNDERSCORES = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}

UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json: expected a regular file"),
    "only tokenizer.model": (only_a_sentence_piece_model, "convert it with transformers"),
    "no JSON": (write("tokenizer.json", "{"), "a JSON object"),
    "no text": (write("tokenizer.json", b"\xff\xfe"), "a JSON object"),
    "deep nesting": (write("tokenizer.json", '{"model":' * 5000), "too deeply"),
    "another model": (changed("tokenizer.json", model={"type": "Oracle"}), "a tokenizer"),
    "a merge of nothing": (
        changed("tokenizer.json", model={"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}), "a tokenizer",
    ),
    "a huge id": (
        changed("tokenizer.json", model={"type": "BPE", "vocab": {"a": 4_000_000_000}, "merges": []}), "token ids",
    ),
    "prefixes within words": (
        changed("tokenizer.json", model={"type": "BPE", "vocab": {}, "merges": [], "continuing_subword_prefix": "x"}),
        "model.continuing_subword_prefix",
    ),
    "a post-processor that lacks its tokens": (
        changed("tokenizer.json", post_processor=POST_PROCESSOR | {"special_tokens": {}}), "a tokenizer",
    ),
    "a post-processor of other ids": (changed("tokenizer.json", post_processor=POST_PROCESSOR), "post_processor"),
    "no decoder": (changed("tokenizer.json", decoder=None), "decoder: expected ByteLevel"),
    "a decoder of word pieces": (
        changed("tokenizer.json", decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}), "found WordPiece",
    ),
    "another sign for spaces": (
        changed("tokenizer.json", decoder=UNDERSCORES),
        "found Metaspace",
    ),
    "a configuration that is no object": (write("tokenizer_config.json", "[]"), "found list"),
    "a flag that is none": (changed("tokenizer_config.json", add_bos_token="yes"), "add_bos_token"),
    "an end outside the vocabulary": (changed("generation_config.json", eos_token_id=[1, 10**9]), "eos_token_id"),
    "an end that is no id": (changed("config.json", eos_token_id=True), "eos_token_id"),
    "a vocabulary of 2^40": (changed("config.json", vocab_size=2**40), "token ids"),
    "a template that is none": (write("chat_template.jinja", "{% for %}"), "a jinja template"),
    "a template of 2 MB": (write("chat_template.jinja", "x" * (2 << 20)), "at most"),
}  # fmt: skip


@pytest.mark.parametrize("why", UNUSABLE)
def test_an_unusable_folder_is_refused_by_name(why: str, folder: Path) -> None:
    spoil, said = UNUSABLE[why]
    spoil(folder)
    with pytest.raises(ModelFileError) as caught:
        Tokenizer.from_path(folder)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "tokenizer.json"
    (folder / "tokenizer.json").rename(outside)
    (folder / "tokenizer.json").symlink_to(outside)
    with pytest.raises(ModelFileError, match=r"expected a file in the folder, found a link"):
        Tokenizer.from_path(folder)
