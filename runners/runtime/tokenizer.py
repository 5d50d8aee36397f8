"""Text to token ids and back, and the chat template, from the vocabulary in a GGUF file.

As Hugging Face tokenizers do, `encode` turns the text of a control token (`<|im_end|>`) into that token wherever it
stands, in a user's chat message too. Decoding goes byte by byte, so that a character that spans tokens can be put
together as they arrive; control tokens have no bytes. Byte-pair vocabularies (`gpt2`) only; imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Regex, models, pre_tokenizers
from tokenizers import Tokenizer as BytePairTokenizer

from runners.runtime.gguf_file import GGUFFile, ModelFileError

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4

_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


class TextError(ValueError):
    """Text that can't be encoded, a token id that isn't in the vocabulary, or a chat the template refuses."""

    retry = False


class Tokenizer:
    """`encode`, `decode` and the chat template of one model. Safe to use from several threads.

    A text of more than n · `longest_token_bytes` bytes has more than n tokens.
    """

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._tokens: list[str] = file.require("tokenizer.ggml.tokens", list)
        self._types: list[int] = file.metadata.get("tokenizer.ggml.token_type") or [_NORMAL] * len(self._tokens)
        self._inner = _byte_pair(file, self._tokens, self._types)
        self._bytes = [_bytes_of(text, kind) for text, kind in zip(self._tokens, self._types, strict=True)]
        self.longest_token_bytes = max(len(text.encode("utf-8", "replace")) for text in self._tokens)
        self.chat_template: str | None = file.metadata.get("tokenizer.chat_template")
        self._template = _compile_template(file)
        self.vocab_size = len(self._tokens)
        self.bos_id: int | None = self._special("bos")
        self._add_bos = bool(file.metadata.get("tokenizer.ggml.add_bos_token", False)) and self.bos_id is not None
        ends = (self._special(name) for name in ("eos", "eot", "eom"))
        self.eos_ids: tuple[int, ...] = tuple(dict.fromkeys(end for end in ends if end is not None))

    @classmethod
    def from_gguf(cls, path: Path | str) -> Tokenizer:
        """The tokenizer in a GGUF file. Raises ModelFileError if its vocabulary is absent or of another kind."""
        return cls(GGUFFile(path))

    @property
    def has_chat_template(self) -> bool:
        return self._template is not None

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text; `add_special` puts the start token first where the model asks for one.

        A chat's text has its own start token: encode it with `add_special=False`. Raises TextError for text that
        is no Unicode (a lone surrogate).
        """
        try:
            ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError) as error:
            raise TextError(f"text: expected valid Unicode, found {error}") from error
        return [self.bos_id, *ids] if add_special and self._add_bos and self.bos_id is not None else ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD, control tokens nothing."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for, which may end within a character. Raises TextError for an unknown id."""
        if not 0 <= token_id < self.vocab_size:
            raise TextError(f"token id: expected 0 … {self.vocab_size - 1}, found {token_id}")
        return self._bytes[token_id]

    def token_text(self, token_id: int) -> str:
        """A token as people read it: its bytes as text (U+FFFD for a part of a character), a control token's name.
        Raises TextError for an unknown id."""
        return self.token_bytes(token_id).decode("utf-8", errors="replace") or self._tokens[token_id]

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """A chat as the text the model was trained on; `kwargs` are further variables of the template. Raises TextError
        if there is no template, or it refuses."""
        if self._template is None:
            raise TextError(f"chat: {self._file.path.name} has no chat template; send a plain completion")
        try:
            return self._template.render(
                **kwargs,
                messages=messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                bos_token=self._text_of("bos"),
                eos_token=self._text_of("eos"),
            )
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            raise TextError(f"chat: the model's template refuses it: {type(error).__name__}: {error}") from error

    def _special(self, name: str) -> int | None:
        token_id = self._file.metadata.get(f"tokenizer.ggml.{name}_token_id")
        return token_id if isinstance(token_id, int) and 0 <= token_id < len(self._tokens) else None

    def _text_of(self, name: str) -> str:
        token_id = self._special(name)
        return "" if token_id is None else self._tokens[token_id]


def _byte_pair(file: GGUFFile, tokens: list[str], types: list[int]) -> BytePairTokenizer:
    kind = file.require("tokenizer.ggml.model", str)
    if kind != "gpt2":
        raise ModelFileError(file.path, "metadata tokenizer.ggml.model", "'gpt2' (byte-pair)", repr(kind))
    if len(types) != len(tokens):
        raise ModelFileError(file.path, "metadata tokenizer.ggml.token_type", f"{len(tokens)} items", str(len(types)))
    merges = [tuple(merge.split(" ", 1)) for merge in file.require("tokenizer.ggml.merges", list)]
    vocab = {token: index for index, token in enumerate(tokens)}
    try:
        model = models.BPE(vocab=vocab, merges=merges, fuse_unk=False)
    except Exception as error:  # the library raises bare Exception for a merge outside the vocabulary
        raise ModelFileError(file.path, "metadata tokenizer.ggml.merges", "pairs of tokens", str(error)) from error
    tokenizer = BytePairTokenizer(model)
    tokenizer.pre_tokenizer = _pre_tokenizer(file, model)
    added = [
        AddedToken(token, special=kind == _CONTROL, normalized=False)
        for token, kind in zip(tokens, types, strict=True)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer.add_tokens(added)
    return tokenizer


def _pre_tokenizer(file: GGUFFile, model: models.BPE) -> pre_tokenizers.PreTokenizer:
    name = file.metadata.get("tokenizer.ggml.pre", "default")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if name in ("default", "gpt-2"):
        return byte_level
    if name == "llama-bpe":
        model.ignore_merges = True
        words = pre_tokenizers.Split(Regex(_LLAMA3_WORDS), "isolated")
        return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    allowed = "smollm, gpt-2, default or llama-bpe"
    raise ModelFileError(file.path, "metadata tokenizer.ggml.pre", allowed, repr(name))


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable character for each byte, turned around: printable bytes stand for themselves, the others
    for the characters from U+0100 on, in order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + index): byte for index, byte in enumerate(rest)}


_BYTE_OF = _byte_alphabet()


def _bytes_of(text: str, kind: int) -> bytes:
    if kind == _NORMAL and all(char in _BYTE_OF for char in text):
        return bytes(_BYTE_OF[char] for char in text)
    return text.encode("utf-8") if kind in (_NORMAL, _USER_DEFINED) else b""


def _compile_template(file: GGUFFile) -> Template | None:
    source = file.metadata.get("tokenizer.chat_template")
    if source is None:
        return None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return environment.from_string(source)
    except (TemplateError, AttributeError, TypeError) as error:
        raise ModelFileError(file.path, "metadata tokenizer.chat_template", "a jinja template", str(error)) from error


def _refuse(message: str) -> None:
    raise TemplateError(message)
