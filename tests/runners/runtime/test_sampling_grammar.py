"""Structures: what comes out matches, and what can't be used is refused with a reason."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from letter_vocabulary import CONTROL, END, LetterVocabulary
from logits_executor import LogitsExecutor
from reference_executor import VOCAB_SIZE
from sampled_requests import Request, serve

from runners.runtime.sampling.grammar import MAX_TEXT_BYTES, GrammarState, StructureCompiler
from runners.runtime.sampling.structure import StructureError
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams, Structure, StructureKind

COMPILER = StructureCompiler(LetterVocabulary, VOCAB_SIZE)
LETTERS = LetterVocabulary()


def compiled(kind: StructureKind, text: str = "", **fields: Any) -> GrammarState:
    return COMPILER.compile(Structure(kind, text), SamplingParams(**{"max_tokens": 100, **fields}))


def walk(state: GrammarState, seed: int, most: int = 300) -> str:
    """The text of random allowed tokens, up to the end."""
    draw, token_ids = random.Random(seed), []
    while not state.finished and len(token_ids) < most:
        token_ids.append(draw.choice(state.allowed.nonzero()[0].tolist()))
        state.advance(token_ids[-1])
    assert state.finished
    return LETTERS.decode(token_ids)


names = st.text("abc", min_size=1, max_size=3)
leaves = st.one_of(
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"const": "ab"}, {"enum": [1, "x", None, [True]]}]),
    st.builds(
        lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size},
        st.integers(-99, 99),
        st.integers(0, 99),
    ),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 4)),
    st.just({"type": "string", "pattern": "^[a-c]{2}[0-9]$"}),
    st.just({"type": "number", "minimum": 0, "maximum": 1}),
)


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.builds(
        lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(0, 3)
    )
    unions = st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3))
    return arrays | unions | objects(inner)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(names, inner, max_size=3))
    required = [name for name in properties if draw(st.booleans())]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


schemas = st.recursive(leaves, branches, max_leaves=6)


@settings(max_examples=80, deadline=None)
@given(schema=schemas, seed=st.integers(0, 5), temperature=st.sampled_from([0.0, 1.0, 5.0]), ignore_eos=st.booleans())
def test_an_output_that_stops_is_valid_for_its_schema(
    schema: dict[str, Any], seed: int, temperature: float, ignore_eos: bool
) -> None:
    structure = Structure("json_schema", json.dumps(schema))
    params = SamplingParams(
        max_tokens=250, temperature=temperature, seed=seed, ignore_eos=ignore_eos, structure=structure
    )
    ((answer,), _) = serve(LogitsExecutor(80, 4), COMPILER, [Request((1, 2), params)], SchedulerConfig(1, 64))
    event(str(answer.reason))
    assert answer.failure is None
    if answer.reason == "stop":
        assert jsonschema_rs.is_valid(schema, json.loads(LETTERS.decode(answer.token_ids)))


@pytest.mark.parametrize("seed", range(8))
def test_a_json_object_is_one(seed: int) -> None:
    assert isinstance(json.loads(walk(compiled("json_object"), seed, most=5000)), dict)


@pytest.mark.parametrize("seed", range(8))
def test_a_choice_is_taken_to_the_letter(seed: int) -> None:
    choices = ["red", "reddish", 'a"b', "c\nd", "{", "-"]
    assert walk(compiled("choice", json.dumps(choices)), seed) in choices


def test_a_regex_and_a_grammar_bind_the_whole_text() -> None:
    assert {walk(compiled("regex", "ab?c"), seed) for seed in range(20)} == {"abc", "ac"}
    nested = {walk(compiled("grammar", 'start: "{" start "}" | "x"'), seed) for seed in range(20)}
    assert {"x", "{x}"} <= nested
    assert all(text.count("{") == text.count("}") for text in nested)


def test_json_cannot_lose_itself_in_white_space() -> None:
    state = compiled("json_object")
    state.advance(LETTERS.encode("{")[0])
    (newline,) = LETTERS.encode("\n")
    count = 0
    while state.allowed[newline]:
        state.advance(newline)
        count += 1
    assert 1 <= count <= 20


def test_control_tokens_and_early_ends_are_never_allowed() -> None:
    state = compiled("regex", ".{5}")
    assert not state.allowed[[CONTROL, END]].any()
    for _ in range(5):
        assert not state.finished
        state.advance(0)
    assert state.finished


def test_a_model_with_more_logits_than_tokens_allows_none_of_the_rest() -> None:
    padded = StructureCompiler(LetterVocabulary, VOCAB_SIZE + 14)
    state = padded.compile(Structure("regex", ".*"), SamplingParams())
    assert state.allowed.shape == (VOCAB_SIZE + 14,)
    assert not state.allowed[VOCAB_SIZE:].any()


class SpacingVocabulary(LetterVocabulary):
    """Puts a space before every text, as SentencePiece does."""

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        return super().encode(" " + text)


def test_a_tokenizer_that_adds_to_a_text_still_spells_what_is_forced() -> None:
    compiler = StructureCompiler(SpacingVocabulary, VOCAB_SIZE)
    assert walk(compiler.compile(Structure("choice", '["abc"]'), SamplingParams()), 0) == "abc"


DEEP = '{"items":' * 5000 + "{}" + "}" * 5000


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("json_schema", "{", "EOF while parsing"),
        ("json_schema", '{"type": "text"}', "Invalid type: text"),
        ("json_schema", '{"not": {}}', 'Unimplemented keys: ["not"]'),
        ("json_schema", '{"not": {}, "x-guidance": {"lenient": true}}', 'Unimplemented keys: ["not"]'),
        ("json_schema", '{"$ref": "file:///etc/passwd"}', "is not present in a registry"),
        ("json_schema", '{"properties": {"a": false}, "required": ["a"], "type": "object"}', "Unsatisfiable schema"),
        ("json_schema", DEEP, "recursion limit exceeded"),
        ("regex", "a(", "unclosed group"),
        ("regex", "", "the empty text alone"),
        ("regex", r"[^\s\S]", "no text of the model's tokens can match it"),
        ("regex", "\ud800", "no Unicode"),
        ("regex", "a" * (MAX_TEXT_BYTES + 1), f"at most {MAX_TEXT_BYTES}"),
        ("choice", "[1]", "a list of texts"),
        ("choice", "[]", "0 choices; allowed: 1 to"),
        ("choice", "{", "expected a JSON list of choices"),
        ("choice", r'["\ud800"]', "error parsing string"),
        ("choice", '["É"]', "no text of the model's tokens can match it"),
        ("grammar", "start: foo", 'unknown name: "foo"'),
        ("grammar", "nonsense", ""),
    ],
)  # fmt: skip
def test_a_structure_that_cannot_be_used_is_refused_with_the_reason(
    kind: StructureKind, text: str, reason: str
) -> None:
    with pytest.raises(StructureError) as caught:
        compiled(kind, text)
    assert reason in str(caught.value)
    assert 0 < len(str(caught.value)) < 500


def test_a_structure_that_grows_too_complex_ends_in_an_error_and_spoils_no_other_output() -> None:
    first, second = (compiled("grammar", "start: /(.*a.{100}.*) & (.*b.{50}.*)/") for _ in range(2))
    draw, (a, b) = random.Random(0), LETTERS.encode("ab")
    with pytest.raises(StructureError, match="too complex"):
        for _ in range(20_000):
            first.advance(draw.choice((a, b)))
    second.advance(a)
    assert second.allowed.any() and not second.finished
