"""Text to token ids and back, and the chat template, from a model's own files: GGUF metadata or a Hugging Face folder.

As Hugging Face tokenizers do, `encode` turns the text of a control token (`<|im_end|>`) into that token wherever it
stands, in a user's chat message too. Decoding goes byte by byte, so that a character that spans tokens can be put
together as they arrive; control tokens have no bytes. How either kind of file spells a vocabulary is
tokenizer_gguf.py's and tokenizer_folder.py's. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runners.runtime.chat_template import ChatTemplates, TextError
from runners.runtime.gguf_file import GGUFFile
from runners.runtime.model_source import ModelSource, RandomModel
from runners.runtime.tokenizer_folder import read_folder
from runners.runtime.tokenizer_gguf import read_gguf
from runners.runtime.tokenizer_ids import ids_alone
from runners.runtime.tokenizer_parts import TokenizerParts

__all__ = ["TextError", "Tokenizer"]


class Tokenizer:
    """`encode`, `decode` and the chat template of one model. Safe to use from several threads.

    A text of more than n · `longest_token_bytes` bytes has more than n tokens. `vocab_size` counts ids, `eos_ids` end
    a text, `special_ids` are the control tokens, which stand for no text. `chat_template` is the source of all the
    model's templates, for those who look for what it knows; empty without one.
    """

    def __init__(self, parts: TokenizerParts) -> None:
        """Raises ModelFileError for a chat template that is no jinja."""
        self._encoder, self._around = parts.encoder, parts.around
        self._texts, self._values, self._strips_space = parts.texts, parts.values, parts.strips_space
        self._chat = ChatTemplates(parts.path, parts.templates, parts.special_texts)
        self.chat_template = "\n".join(parts.templates.values())
        self.vocab_size = len(parts.texts)
        self.longest_token_bytes = parts.longest_token_bytes
        self.special_ids = parts.special_ids
        self.bos_id: int | None = parts.bos_id
        self.eos_ids: tuple[int, ...] = parts.eos_ids

    @classmethod
    def from_path(cls, path: Path | str) -> Tokenizer:
        """The tokenizer of a model: of a GGUF file, or of a folder in Hugging Face layout.

        Raises ModelFileError if its vocabulary is absent or of a kind that can't be used.
        """
        return cls(read_folder(Path(path)) if Path(path).is_dir() else read_gguf(GGUFFile(path)))

    @classmethod
    def from_source(cls, source: ModelSource) -> Tokenizer:
        """As `from_path`; of a model of random weights, which has ids alone."""
        if isinstance(source, RandomModel):
            return cls(ids_alone(source.config().vocab_size))
        return cls.from_path(source)

    @property
    def has_chat_template(self) -> bool:
        return bool(self._chat)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text; `add_special` puts the start token first where the model asks for one.

        A chat's text has its own start token: encode it with `add_special=False`. Raises TextError for text that
        is no Unicode (a lone surrogate).
        """
        try:
            ids: list[int] = self._encoder.encode(text, add_special_tokens=add_special and self._around is None).ids
        except (TypeError, UnicodeEncodeError) as error:
            raise TextError(f"text: expected valid Unicode, found {error}") from error
        except Exception as error:  # the library's own, for a text that its vocabulary has nothing for
            raise TextError(f"text: the model's vocabulary can't encode it: {error}") from error
        if not add_special or self._around is None:
            return ids
        before, after = self._around
        return [*before, *ids, *after]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD, control tokens nothing (or their spelling).

        Where `encode` puts a space before a text, one is taken away. Raises TextError for an unknown id.
        """
        data = b"".join(self.token_bytes(token_id, skip_special=skip_special) for token_id in ids)
        return data.removeprefix(b" " if self._strips_space else b"").decode("utf-8", errors="replace")

    def token_bytes(self, token_id: int, *, skip_special: bool = True) -> bytes:
        """The bytes that a token stands for, which may end within a character. Raises TextError for an unknown id.

        A control token has none, or those of its spelling with `skip_special=False`.
        """
        self._check_id(token_id)
        return b"" if skip_special and token_id in self.special_ids else self._values[token_id]

    def token_text(self, token_id: int) -> str:
        """A token's entry as the vocabulary spells it. Raises TextError for an unknown id."""
        self._check_id(token_id)
        return self._texts[token_id]

    def token_id(self, text: str) -> int | None:
        """The id of the entry spelled so, such as "<think>"; None if there is none."""
        token_id: int | None = self._encoder.token_to_id(text)
        return token_id

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **more: Any,
    ) -> str:
        """A chat, with the tools it may call, as the text the model was trained on.

        `more` are further names for the template (`enable_thinking`, `documents` …). Raises TextError if there is no
        template, or it refuses.
        """
        return self._chat.render(messages, tools, add_generation_prompt, more)

    def _check_id(self, token_id: int) -> None:
        if not 0 <= token_id < self.vocab_size:
            raise TextError(f"token id: expected 0 … {self.vocab_size - 1}, found {token_id}")
