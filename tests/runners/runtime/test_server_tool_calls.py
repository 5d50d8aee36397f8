"""Tool calls in the formats that the families write; what is no call stays text."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.runtime.serving.chat_output import ChatOutput
from runners.runtime.serving.reasoning import ReasoningSplitter
from runners.runtime.serving.tool_calls.call import ToolParser
from runners.runtime.serving.tool_calls.forced import ListedCalls, NamedCall
from runners.runtime.serving.tool_calls.tagged import TaggedCalls
from runners.runtime.serving.tool_calls.trailing import (
    PYTHON_TAG,
    TOOL_CALLS,
    TrailingCalls,
    read_llama3,
    read_mistral,
)

NAMES = frozenset({"add", "get_weather"})
ADD = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
WEATHER = '{"name": "get_weather", "arguments": {"city": "Zürich"}}'
LLAMA = '{"name": "add", "parameters": {"a": 1, "b": 2}}'

MAKE: dict[str, Callable[[], ToolParser]] = {
    "hermes": lambda: TaggedCalls(NAMES),
    "llama3_json": lambda: TrailingCalls(NAMES, PYTHON_TAG, read_llama3, bare="{"),
    "mistral": lambda: TrailingCalls(NAMES, TOOL_CALLS, read_mistral),
    "required": lambda: ListedCalls(NAMES),
    "named": lambda: NamedCall("add"),
}
Outcome = tuple[str, list[tuple[str, object]]]
ADDED: tuple[str, object] = ("add", {"a": 1, "b": 2})
ASKED: tuple[str, object] = ("get_weather", {"city": "Zürich"})


def outcome(parser: ToolParser, pieces: list[str], *, parallel: bool = True) -> Outcome:
    """The text, and each call's name and arguments."""
    output = ChatOutput(None, parser, parallel=parallel)
    parts = [*map(output.push, pieces), output.finish()]
    calls = [call for part in parts for call in part.calls]
    assert [index for index, _ in calls] == list(range(len(calls)))
    return "".join(part.text for part in parts), [(call.name, json.loads(call.arguments)) for _, call in calls]


CASES: list[tuple[str, str, Outcome]] = [
    ("hermes", f"<tool_call>\n{ADD}\n</tool_call>", ("", [ADDED])),
    (
        "hermes",
        f"Let me see.\n<tool_call>{ADD}</tool_call>\n<tool_call>{WEATHER}</tool_call>\n",
        ("Let me see.", [ADDED, ASKED]),
    ),
    ("hermes", f"<tool_call>{ADD}", ("", [ADDED])),
    ("hermes", f"<tool_call>{ADD}</tool_call>\n Done.", ("Done.", [ADDED])),
    ("hermes", "2 < 3 <tool", ("2 < 3 <tool", [])),
    ("hermes", "<tool_call>{broken</tool_call> after", ("<tool_call>{broken</tool_call> after", [])),
    (
        "hermes",
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        ('<tool_call>{"name": "rm", "arguments": {}}</tool_call>', []),
    ),
    (
        "hermes",
        '<tool_call>{"name": "add", "arguments": NaN}</tool_call>',
        ('<tool_call>{"name": "add", "arguments": NaN}</tool_call>', []),
    ),
    ("hermes", '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>', ("", [("add", {"a": 1})])),
    ("hermes", '<tool_call>{"name": "add"}</tool_call>', ("", [("add", {})])),
    ("hermes", "plain text \n", ("plain text \n", [])),
    ("llama3_json", LLAMA, ("", [ADDED])),
    ("llama3_json", f"<|python_tag|>{LLAMA}; {LLAMA}", ("", [ADDED, ADDED])),
    ("llama3_json", f"Sure. <|python_tag|>{LLAMA}", ("Sure.", [ADDED])),
    ("llama3_json", '{"answer": 42}', ('{"answer": 42}', [])),
    ("llama3_json", "<|python_tag|>print(1)", ("<|python_tag|>print(1)", [])),
    ("llama3_json", "It is {5}.", ("It is {5}.", [])),
    ("llama3_json", "", ("", [])),
    ("mistral", f"[TOOL_CALLS][{ADD}, {WEATHER}]", ("", [ADDED, ASKED])),
    ("mistral", '[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}[TOOL_CALLS]get_weather{"city": "Zürich"}', ("", [ADDED, ASKED])),
    ("mistral", "[TOOL_CALLS] [", ("[TOOL_CALLS] [", [])),
    ("mistral", "[TOOL_CALLS]", ("[TOOL_CALLS]", [])),
    ("mistral", "a [TOOL_", ("a [TOOL_", [])),
    ("required", '[{"name": "add", "parameters": {"a": 1, "b": 2}}]', ("", [ADDED])),
    ("required", '[{"name": "add", "para', ('[{"name": "add", "para', [])),
    ("required", f" [ {ADD},\n{WEATHER} ] ", ("", [ADDED, ASKED])),
    ("required", f'[{ADD}, {{"name": "get', ('{"name": "get', [ADDED])),
    ("named", '{"a": 1, "b": 2}', ("", [ADDED])),
    ("named", '{"a": 1', ('{"a": 1', [])),
]


@pytest.mark.parametrize(("form", "text", "expected"), CASES)
def test_calls_are_read_and_the_rest_is_text(form: str, text: str, expected: Outcome) -> None:
    assert outcome(MAKE[form](), [text]) == expected
    assert outcome(MAKE[form](), list(text)) == expected


def test_a_json_nested_beyond_reason_is_text() -> None:
    text = "<tool_call>" + "[" * 100_000 + "</tool_call>"
    assert outcome(MAKE["hermes"](), [text]) == (text, [])


@pytest.mark.parametrize("form", ["hermes", "mistral"])
def test_without_parallel_calls_the_first_is_the_only_one(form: str) -> None:
    text = f"[TOOL_CALLS][{ADD}, {ADD}]" if form == "mistral" else f"<tool_call>{ADD}</tool_call>" * 2
    assert outcome(MAKE[form](), [text], parallel=False) == ("", [ADDED])


FRAGMENTS = [
    "<tool_call>",
    "</tool_call>",
    ADD,
    LLAMA,
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "[",
    "]",
    "\n",
    " ",
    "a",
    "<",
    "{",
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(MAKE)),
    st.lists(st.sampled_from(FRAGMENTS), max_size=8),
    st.lists(st.integers(0, 300), max_size=5),
)
def test_pieces_never_change_what_is_read(form: str, fragments: list[str], cuts: list[int]) -> None:
    text = "".join(fragments)
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(ends)]
    assert outcome(MAKE[form](), pieces) == outcome(MAKE[form](), [text])


def test_a_thought_comes_before_a_call_and_its_tokens_are_counted() -> None:
    output = ChatOutput(ReasoningSplitter(opened=False), MAKE["hermes"]())
    parts = [output.push(piece) for piece in ("<think>", "I", " add", "</think>", f"<tool_call>{ADD}</tool_call>")]
    parts.append(output.finish())
    assert "".join(part.reasoning for part in parts) == "I add"
    assert [call.name for part in parts for _, call in part.calls] == ["add"]
    assert "".join(part.text for part in parts) == ""
    assert output.num_reasoning_tokens == 4


def test_a_call_of_a_list_comes_before_the_list_ends() -> None:
    parser = MAKE["required"]()
    (parsed,) = parser.push(f"[{ADD}, ")
    assert [call.name for call in parsed.calls] == ["add"]


def test_every_call_has_an_id_of_its_own_that_mistral_takes() -> None:
    output = ChatOutput(None, MAKE["mistral"]())
    output.push(f"[TOOL_CALLS][{ADD}, {ADD}]")
    ids = [call.id for _, call in output.finish().calls]
    assert len(set(ids)) == 2
    assert all(len(identity) == 9 and identity.isalnum() for identity in ids)
