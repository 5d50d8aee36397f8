"""Structures that an output must match, by llguidance: JSON schemas, regular expressions, choices and Lark grammars.

What a client sends may be hostile: its size, the work of compiling it, the work per token and the states kept are all
bounded (llguidance counts steps, not seconds), and what goes beyond is an error that names the structure. Knows neither
the engine nor logits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from runners.runtime.sampling.structure import Allowed, StructureError
from runners.runtime.sequence import SamplingParams, Structure, StructureKind

MAX_TEXT_BYTES = 131_072
MAX_CHOICES = 10_000
MAX_ERROR_CHARS = 400
LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,  # some 20 ms
    step_lexer_fuel=200_000,  # some 14 ms
    step_max_items=50_000,
    max_lexer_states=50_000,  # some 30 MB
    max_grammar_size=100_000,
    verbose_errors=False,
)
WHITESPACE = r"[ \n\t\r]{1,20}"
"""Between the parts of JSON. Bounded, as small models fall into writing nothing else."""

log = logging.getLogger(__name__)


class Vocabulary(Protocol):
    """What is asked of a tokenizer; runners.runtime.tokenizer.Tokenizer is one."""

    vocab_size: int
    eos_ids: tuple[int, ...]

    def token_bytes(self, token_id: int) -> bytes: ...

    def encode(self, text: str, *, add_special: bool = True) -> list[int]: ...


class StructureCompiler:
    """Makes structures ready for the outputs of one model of `vocab_size` logits. For one thread at a time.

    The vocabulary is loaded when the first structure comes: most servers never see one.
    """

    def __init__(self, load_vocabulary: Callable[[], Vocabulary], vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._vocabulary = lru_cache(maxsize=1)(load_vocabulary)
        self._tokenizer = lru_cache(maxsize=1)(self._build_tokenizer)

    def compile(self, structure: Structure, params: SamplingParams) -> GrammarState:
        """The state before an output's first token. Raises StructureError.

        Each is compiled anew: copies of a matcher share its lexer's states, and the limit on them.
        """
        matcher = self._compile(structure.kind, structure.text)
        state = GrammarState(matcher, params, self._vocabulary().eos_ids, self._vocab_size)
        if state.finished:
            raise StructureError("it allows the empty text alone")
        return state

    def _compile(self, kind: StructureKind, text: str) -> LLMatcher:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise StructureError(f"its text is no Unicode: {error.reason}") from error
        if size > MAX_TEXT_BYTES:
            raise StructureError(f"its text has {size} bytes; allowed: at most {MAX_TEXT_BYTES}")
        matcher = LLMatcher(self._tokenizer(), _grammar(kind, text), log_level=0, limits=LIMITS)
        _check(matcher)
        return matcher

    def _build_tokenizer(self) -> LLTokenizer:
        # The library wants one end token. Ours may have many, or none; so it gets one of its own, past all others.
        view = _LibraryView(self._vocabulary(), self._vocab_size)
        return LLTokenizer(TokenizerWrapper(view), n_vocab=self._vocab_size + 1)


class _LibraryView:
    """A vocabulary as llguidance's TokenizerWrapper reads it; tokens without bytes are control tokens to it.

    Where a grammar leaves one way to go on, the library asks for the tokens of that text.
    """

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary, vocab_size: int) -> None:
        known = min(vocabulary.vocab_size, vocab_size)
        spelled = [vocabulary.token_bytes(token_id) for token_id in range(known)]
        self.tokens = [*spelled, *[b""] * (vocab_size - known), b"<end>"]
        self.eos_token_id = vocab_size
        self.special_token_ids = [
            *(token_id for token_id in range(vocab_size) if not self.tokens[token_id]),
            vocab_size,
        ]
        self._vocabulary = vocabulary
        self._ids = {spelling: token_id for token_id, spelling in enumerate(spelled) if spelling}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: str) -> list[int]:
        """As the model's own tokenizer has it, unless that adds to a text or sees control tokens in it."""
        token_ids = self._vocabulary.encode(text, add_special=False)
        spelled = b"".join(self.tokens[token_id] for token_id in token_ids)
        return token_ids if spelled == text.encode() else self._longest_first(text.encode())

    def _longest_first(self, data: bytes) -> list[int]:
        token_ids = []
        while data:
            lengths = range(min(self._longest, len(data)), 0, -1)
            length = next((length for length in lengths if data[:length] in self._ids), 0)
            if not length:
                break  # the library finds no token for the rest, and refuses the text
            token_ids.append(self._ids[data[:length]])
            data = data[length:]
        return token_ids


class GrammarState:
    """Implements structure.StructureState: the grammar's matcher, and when stop tokens may come.

    They may where the text so far matches, from `min_tokens` on; under `ignore_eos` never, so that such an output ends
    where nothing can follow. Where one may come it is a stop token, elsewhere the text that it stands for.
    """

    def __init__(self, matcher: LLMatcher, params: SamplingParams, eos_ids: tuple[int, ...], vocab_size: int) -> None:
        self.finished = False
        self._matcher = matcher
        self._stop_ids = sorted(token for token in {*eos_ids, *params.stop_token_ids} if token < vocab_size)
        self._first_stop = params.max_tokens if params.ignore_eos else params.min_tokens
        self._vocab_size = vocab_size
        self._num_tokens = 0
        self._may_stop = False
        self.allowed = self._look_ahead()

    def advance(self, token_id: int) -> None:
        if self._may_stop and token_id in self._stop_ids:
            self.finished = True
            return
        self._matcher.consume_token(token_id)
        _check(self._matcher)
        self._num_tokens += 1
        self.allowed = self._look_ahead()

    def _look_ahead(self) -> Allowed:
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        _check(self._matcher)
        allowed = np.unpackbits(bits, count=self._vocab_size, bitorder="little").astype(np.bool_)
        accepting = self._matcher.is_accepting()
        if not allowed.any():
            if not accepting:
                raise StructureError("no text of the model's tokens can match it")
            self.finished = True
        self._may_stop = accepting and self._num_tokens >= self._first_stop
        if self._may_stop:
            allowed[self._stop_ids] = True
        return allowed


def _grammar(kind: StructureKind, text: str) -> str:
    """In llguidance's own form. Raises StructureError for a text that isn't even of its kind."""
    match kind:
        case "json_object":
            return _json_grammar('{"type": "object"}')
        case "json_schema":
            return _json_grammar(text)
        case "regex":
            return LLMatcher.grammar_from_regex(text)
        case "choice":
            # llguidance's Lark spells strings as JSON does.
            choices = " | ".join(json.dumps(choice) for choice in _choices(text))
            return LLMatcher.grammar_from_lark(f"start: {choices}")
        case "grammar":
            return LLMatcher.grammar_from_lark(text)


def _json_grammar(schema: str) -> str:
    try:
        return LLMatcher.grammar_from_json_schema(
            schema, defaults={"whitespace_pattern": WHITESPACE}, overrides={"lenient": False}
        )
    except ValueError as error:
        raise StructureError(_shorten(str(error))) from error


def _choices(text: str) -> list[str]:
    try:
        choices = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StructureError(f"expected a JSON list of choices, found {_shorten(str(error))}") from error
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise StructureError("expected a list of texts to choose from")
    if not 1 <= len(choices) <= MAX_CHOICES:
        raise StructureError(f"found {len(choices)} choices; allowed: 1 to {MAX_CHOICES}")
    return choices


def _check(matcher: LLMatcher) -> None:
    """A matcher that met an error stays in it. Raises StructureError."""
    if not matcher.is_error():
        return
    message = matcher.get_error()
    if message.startswith("panic"):
        log.error("llguidance failed on a structure: %s", message)
        raise StructureError("it can't be used, for a fault of the grammar library")
    if "NoExtension" in message:
        raise StructureError("no text of the model's tokens can match it")
    if any(sign in message for sign in ("TooComplex", "fuel", "too many")):
        raise StructureError(f"it is too complex: {_shorten(message)}")
    raise StructureError(_shorten(message))


def _shorten(message: str) -> str:
    text = " ".join(message.replace("<non-verbose/>", "").split())
    return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + " …"
