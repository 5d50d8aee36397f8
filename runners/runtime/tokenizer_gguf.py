"""The tokenizer in a GGUF file's metadata: byte-pair vocabularies (`gpt2`) and SentencePiece ones (`llama`).

How a byte-pair vocabulary cuts text into words is named by `tokenizer.ggml.pre`, the patterns are those of the
families' own `tokenizer.json`; a file that names none is taken for GPT-2. Other kinds of vocabulary are refused.

Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Encoder

from runners.runtime.gguf_file import GGUFFile
from runners.runtime.model_file import ModelFileError, shown
from runners.runtime.token_text import SPACE, byte_level_bytes, piece_bytes, plain_bytes
from runners.runtime.tokenizer_parts import MAX_VOCAB, UNBOUNDED_TOKEN_BYTES, TokenizerParts, longest_bytes

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6

_ENDS_OF_TURN = ("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>")
"""Control tokens that end a turn whether or not the file says so."""


@dataclass(frozen=True, slots=True)
class _Words:
    """How a byte-pair family cuts text: its pattern (None: GPT-2's own), and what goes with it."""

    pattern: str | None = None
    single_digits: bool = False
    whole_words_first: bool = False
    add_bos: bool = False
    compose: bool = False


def _llama3_pattern(digits: str) -> str:
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_LLAMA3 = _Words(_llama3_pattern(r"\p{N}{1,3}"), whole_words_first=True, add_bos=True)
_QWEN2 = _Words(_llama3_pattern(r"\p{N}"), compose=True)

_WORDS: Mapping[str, _Words] = {
    "default": _Words(),
    "gpt-2": _Words(),
    "smollm": _Words(single_digits=True),
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
    "smaug-bpe": _Words(_LLAMA3.pattern),  # SmolLM3 and others with Llama 3's words and no start token
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "tekken": _Words(_TEKKEN_PATTERN, whole_words_first=True, add_bos=True),
}


def read_gguf(file: GGUFFile) -> TokenizerParts:
    """The parts of the tokenizer in a file. Raises ModelFileError naming the metadata that can't be used."""
    kind = file.require("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        expected = "'gpt2' (byte-pair) or 'llama' (SentencePiece)"
        raise ModelFileError(file.path, "metadata tokenizer.ggml.model", expected, repr(shown(kind)))
    vocabulary = _Vocabulary(file)
    return _byte_pair(vocabulary) if kind == "gpt2" else _sentence_piece(vocabulary)


class _Vocabulary:
    """The metadata that both kinds share, checked: `tokens` and `types` by id, special tokens, templates."""

    def __init__(self, file: GGUFFile) -> None:
        self.file = file
        self.tokens: list[str] = self.items("tokens", str)
        if not 0 < len(self.tokens) <= MAX_VOCAB:
            raise self.error("tokens", f"1 … {MAX_VOCAB} tokens", str(len(self.tokens)))
        absent = "tokenizer.ggml.token_type" not in file.metadata
        self.types: list[int] = [_NORMAL] * len(self.tokens) if absent else self.items("token_type", int)
        if len(self.types) != len(self.tokens):
            raise self.error("token_type", f"{len(self.tokens)} items", str(len(self.types)))
        self.ids = {text: index for index, text in reversed(list(enumerate(self.tokens)))}
        self.special_ids = frozenset(index for index, kind in enumerate(self.types) if kind in (_CONTROL, _UNKNOWN))

    def items(self, name: str, kind: type) -> list[Any]:
        """A list of the metadata, whose items are all of one kind."""
        values: list[Any] = self.file.require(f"tokenizer.ggml.{name}", list)
        if not all(type(value) is kind for value in values):
            raise self.error(name, f"a list of {kind.__name__}", "other values in it")
        return values

    def error(self, name: str, expected: str, found: str) -> ModelFileError:
        return ModelFileError(self.file.path, f"metadata tokenizer.ggml.{name}", expected, found)

    def special(self, name: str, default: int | None = None) -> int | None:
        """The id of a special token, None where the file has none or names one outside the vocabulary."""
        token_id = self.file.metadata.get(f"tokenizer.ggml.{name}_token_id", default)
        return token_id if type(token_id) is int and 0 <= token_id < len(self.tokens) else None

    def flag(self, name: str, default: bool) -> bool:
        value = self.file.metadata.get(f"tokenizer.ggml.{name}", default)
        if not isinstance(value, bool):
            raise self.error(name, "true or false", shown(repr(value)))
        return value

    def added_tokens(self) -> list[AddedToken]:
        """Tokens that are matched in the text as they stand, before it is cut."""
        return [
            AddedToken(token, special=kind == _CONTROL, normalized=False)
            for token, kind in zip(self.tokens, self.types, strict=True)
            if kind in (_CONTROL, _USER_DEFINED) and token
        ]

    def parts(
        self, encoder: Encoder, values: list[bytes], *, bos_id: int | None, eos_id: int | None, add_bos: bool,
        strips_space: bool = False, longest: int | None = None,
    ) -> TokenizerParts:  # fmt: skip
        before = (bos_id,) if bos_id is not None and self.flag("add_bos_token", add_bos) else ()
        after = (eos_id,) if eos_id is not None and self.flag("add_eos_token", False) else ()
        turns = (self.ids.get(text) for text in _ENDS_OF_TURN)
        ends = [eos_id, self.special("eot"), self.special("eom"), *(turn for turn in turns if turn in self.special_ids)]
        named = {"bos": bos_id, "eos": eos_id, "unk": self.special("unknown"), "pad": self.special("padding")}
        return TokenizerParts(
            path=self.file.path,
            encoder=encoder,
            texts=self.tokens,
            values=values,
            special_ids=self.special_ids,
            around=(before, after),
            strips_space=strips_space,
            longest_token_bytes=longest or longest_bytes(self.tokens, values),
            bos_id=bos_id,
            eos_ids=tuple(dict.fromkeys(end for end in ends if end is not None)),
            special_texts={f"{name}_token": "" if i is None else self.tokens[i] for name, i in named.items()},
            templates=_templates(self.file),
        )


def _byte_pair(vocabulary: _Vocabulary) -> TokenizerParts:
    file = vocabulary.file
    name = file.require("tokenizer.ggml.pre", str) if "tokenizer.ggml.pre" in file.metadata else "default"
    words = _WORDS.get(name)
    if words is None:
        raise vocabulary.error("pre", ", ".join(_WORDS), repr(shown(name)))
    merges = [_pair(vocabulary, merge) for merge in vocabulary.items("merges", str)]
    encoder = _encoder(vocabulary, merges, ignore_merges=words.whole_words_first)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words.pattern is None)
    if words.pattern is not None:
        split = pre_tokenizers.Split(Regex(words.pattern), "isolated")
        encoder.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    elif words.single_digits:
        encoder.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    else:
        encoder.pre_tokenizer = byte_level
    if words.compose:
        encoder.normalizer = normalizers.NFC()
    values = [
        byte_level_bytes(text) if kind == _NORMAL else b"" if kind == _UNUSED else plain_bytes(text)
        for text, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)
    ]
    bos_id, eos_id = vocabulary.special("bos"), vocabulary.special("eos")
    longest = 4 * longest_bytes(vocabulary.tokens, values) if words.compose else None  # four characters make one
    return vocabulary.parts(encoder, values, bos_id=bos_id, eos_id=eos_id, add_bos=words.add_bos, longest=longest)


def _pair(vocabulary: _Vocabulary, merge: str) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not space:
        raise vocabulary.error("merges", "pairs of tokens", repr(shown(merge)))
    return left, right


def _sentence_piece(vocabulary: _Vocabulary) -> TokenizerParts:
    scores: Sequence[float] = vocabulary.items("scores", float)
    if len(scores) != len(vocabulary.tokens) or not all(map(math.isfinite, scores)):
        raise vocabulary.error("scores", f"{len(vocabulary.tokens)} finite numbers", f"{len(scores)} numbers")
    unknown = vocabulary.special("unknown", 0)
    has_bytes = all(f"<0x{byte:02X}>" in vocabulary.ids for byte in range(256))
    encoder = _encoder(
        vocabulary,
        _merges(vocabulary, scores),
        unk_token=None if unknown is None else vocabulary.tokens[unknown],
        fuse_unk=True,
        byte_fallback=has_bytes,
    )
    prefix = vocabulary.flag("add_space_prefix", True)
    spaces = normalizers.Replace(" ", SPACE)
    encoder.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if prefix else spaces
    values = [
        b"" if kind == _UNUSED else piece_bytes(text, byte_fallback=kind == _BYTE)
        for text, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)
    ]
    bos_id, eos_id = vocabulary.special("bos", 1), vocabulary.special("eos", 2)
    longest = None if has_bytes else UNBOUNDED_TOKEN_BYTES
    return vocabulary.parts(
        encoder, values, bos_id=bos_id, eos_id=eos_id, add_bos=True, strips_space=prefix, longest=longest
    )


def _merges(vocabulary: _Vocabulary, scores: Sequence[float]) -> list[tuple[str, str]]:
    """SentencePiece's rule, the adjacent pair whose piece scores highest first, as an ordered list of pairs."""
    normal = {
        text: score
        for text, kind, score in zip(vocabulary.tokens, vocabulary.types, scores, strict=True)
        if kind == _NORMAL
    }
    pairs = [
        (score, cut, text)
        for text, score in normal.items()
        for cut in range(1, len(text))
        if text[:cut] in normal and text[cut:] in normal
    ]
    pairs.sort(key=lambda pair: (-pair[0], -pair[1]))
    return [(text[:cut], text[cut:]) for _, cut, text in pairs]


def _encoder(vocabulary: _Vocabulary, merges: list[tuple[str, str]], **options: Any) -> Encoder:
    try:
        encoder = Encoder(models.BPE(vocab=vocabulary.ids, merges=merges, **options))
    except Exception as error:  # the library raises bare Exception for a merge outside the vocabulary
        raise vocabulary.error("merges", "pairs of tokens", shown(str(error), 200)) from error
    encoder.add_tokens(vocabulary.added_tokens())
    return encoder


def _templates(file: GGUFFile) -> dict[str, str]:
    """The chat templates by name: `tokenizer.chat_template` is the default, others carry theirs in the key."""
    prefix = "tokenizer.chat_template"
    found = {}
    for key in file.metadata:
        if key == prefix or key.startswith(f"{prefix}."):
            found[key.removeprefix(prefix).removeprefix(".") or "default"] = file.require(key, str)
    return found
