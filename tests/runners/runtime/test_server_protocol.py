"""Bodies are taken as OpenAI's clients send them, and refused by the name of the field."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.runtime.serving.errors import ApiError
from runners.runtime.serving.protocol.body import MAX_DEPTH, RequestBody, parse
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.protocol.completions import CompletionBody
from runners.runtime.serving.protocol.embeddings import EmbeddingBody
from runners.runtime.serving.protocol.generation import GenerationBody
from runners.runtime.serving.protocol.tokens import DetokenizeBody, TokenizeBody, TokenizeChatBody

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PLAIN: dict[str, Any] = {"model": "m", "prompt": "hi"}
KINDS: tuple[type[GenerationBody], ...] = (CompletionBody, ChatBody)
BODY_OF: dict[type[GenerationBody], dict[str, Any]] = {CompletionBody: PLAIN, ChatBody: CHAT}
FUNCTION: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}
TOOL: dict[str, Any] = {"type": "function", "function": FUNCTION}


def raw(body: object) -> bytes:
    return json.dumps(body).encode()


def refused(kind: type, body: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(kind, body if isinstance(body, bytes) else raw(body))
    assert caught.value.status == 400
    return caught.value


def test_defaults_are_those_of_openai() -> None:
    body = parse(CompletionBody, raw(PLAIN))
    assert (body.temperature, body.top_p, body.top_k, body.stop, body.stream) == (1.0, 1.0, 0, (), False)


def test_null_means_not_given() -> None:
    body = parse(CompletionBody, raw(PLAIN | {"temperature": None, "stop": None, "n": None, "logprobs": None}))
    assert body.temperature == 1.0


@pytest.mark.parametrize(
    ("prompt", "taken"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1], [2, 3]], ((1,), (2, 3))),
    ],
)
def test_a_prompt_comes_in_four_shapes(prompt: object, taken: object) -> None:
    assert parse(CompletionBody, raw({"model": "m", "prompt": prompt})).prompt == taken


@pytest.mark.parametrize("prompt", [7, {}, [], [1, "a"], [-1], [True], [[1], "a"], [1.5], ["a"] * 129])
def test_any_other_prompt_is_refused_by_name(prompt: object) -> None:
    assert refused(CompletionBody, {"model": "m", "prompt": prompt}).param == "prompt"


@pytest.mark.parametrize("kind", KINDS)
def test_what_would_change_the_answer_and_is_not_there_is_refused_by_name(kind: type[GenerationBody]) -> None:
    for field in kind.REFUSED:
        error = refused(kind, BODY_OF[kind] | {field: "something else"})
        assert error.param == field
        assert "not yet supported" in error.message


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_ask_for_nothing_are_taken(kind: type[GenerationBody]) -> None:
    for field, values in kind.REFUSED.items():
        for value in values:
            parse(kind, raw(BODY_OF[kind] | {field: value}))


def test_true_is_not_taken_for_one() -> None:
    assert refused(CompletionBody, PLAIN | {"n": True}).param == "n"
    assert refused(CompletionBody, PLAIN | {"max_tokens": True}).param == "max_tokens"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.5),
        ("temperature", "1"),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("min_tokens", -1),
        ("seed", 2**64),
        ("stop", ["a"] * 17),
        ("stop", [""]),
        ("stop", 3),
        ("stop", "x" * 1001),
        ("stream", "yes"),
        ("ignore_eos", 1),
        ("model", 3),
        ("n", 0),
        ("n", 129),
        ("n", 2.5),
        ("min_p", 1.5),
        ("repetition_penalty", 0),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -2.5),
        ("logprobs", 21),
        ("logprobs", True),
        ("prompt_logprobs", -1),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {"1": True}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {str(i): 1 for i in range(301)}),
        ("logit_bias", [1]),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", ["1"]),
        ("bad_words", "no list"),
        ("bad_words", [""]),
        ("guided_json", "{"),
        ("guided_json", [1]),
        ("guided_choice", []),
        ("guided_regex", ""),
        ("response_format", "json_object"),
        ("response_format", {"type": "xml"}),
        ("response_format", {"type": "json_schema"}),
        ("structured_outputs", {}),
        ("structured_outputs", {"json": {}, "regex": "a"}),
        ("structured_outputs", {"structural_tag": "x"}),
        ("max_tokens", -1),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(field: str, value: object) -> None:
    error = refused(CompletionBody, PLAIN | {field: value})
    assert error.param == field
    assert error.body()["error"].keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_a_missing_field_is_named(missing: str) -> None:
    error = refused(ChatBody, {key: value for key, value in CHAT.items() if key != missing})
    assert (error.param, error.code) == (missing, "missing_required_parameter")


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "function", "content": "x"}, "messages.0.role"),
        ({"role": "assistant"}, "messages.0.content"),
        ({"role": "user", "content": "x", "tool_calls": [{"function": {"name": "f"}}]}, "messages.0.tool_calls"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "messages.0.tool_calls.0.function.name"),
        ({"role": "user"}, "messages.0.content"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "messages.0.content"),
        ("hi", "messages.0"),
    ],
)
def test_a_message_that_cannot_be_read_is_named(message: object, param: str) -> None:
    assert refused(ChatBody, {"model": "m", "messages": [message]}).param == param


def test_text_parts_are_joined_and_a_developer_speaks_as_the_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    body = parse(ChatBody, raw({"model": "m", "messages": [{"role": "developer", "content": parts}]}))
    assert body.template_messages() == [{"role": "system", "content": "ab"}]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff", b'"x"', b"[" * 100_000, b'{"a":' * 100_000, b'{"a": ' + b"1" * 5000 + b"}"],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert refused(CompletionBody, body).code == "invalid_json"


def test_not_a_number_is_no_temperature() -> None:
    assert refused(CompletionBody, b'{"model":"m","prompt":"a","temperature":NaN}').param == "temperature"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ["a", "\ud800"]}, "prompt.1"),
        ({"stop": "\ud800"}, "stop"),
        ({"logit_bias": {"\udfff": 1}}, "logit_bias"),
        ({"unknown": [{"deep": ["\ud800"]}]}, "unknown.0.deep.0"),
        ({"\ud800": 1}, "body"),
    ],
)
def test_a_lone_surrogate_is_refused_where_it_stands(fields: dict[str, Any], param: str) -> None:
    assert refused(CompletionBody, PLAIN | fields).param == param


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert parse(CompletionBody, b'{"model": "m", "prompt": "\\ud83d\\ude00"}').prompt == ("\U0001f600",)


def test_what_is_nested_too_deep_is_refused_before_anything_walks_it() -> None:
    deep: Any = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"properties": deep}
    assert refused(CompletionBody, PLAIN | {"guided_json": deep}).param == "guided_json"
    tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
    assert refused(ChatBody, CHAT | {"tools": [tool]}).param == "tools"


def test_stream_options_without_a_stream_are_refused() -> None:
    error = refused(CompletionBody, PLAIN | {"stream_options": {"include_usage": True}})
    assert error.param == "stream_options"


def test_an_unknown_field_is_ignored_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            parse(CompletionBody, raw(PLAIN | {"flux_capacitor": 1, "user": "u"}))
    assert [record.getMessage() for record in caplog.records if "flux_capacitor" in record.getMessage()]
    assert len(caplog.records) == 1


def test_a_request_without_a_seed_draws_one_and_one_with_a_seed_keeps_it() -> None:
    drawn = {parse(CompletionBody, raw(PLAIN)).sampling_params(4, ()).seed for _ in range(4)}
    assert len(drawn) == 4
    body = parse(CompletionBody, raw(PLAIN | {"seed": 5}))
    assert body.sampling_params(4, ()).seed == 5
    assert [body.seed_of(index) for index in range(3)] == [5, 6, 7]


def test_ignore_eos_passes_over_the_models_end_and_never_over_the_clients_stop_tokens() -> None:
    both = parse(CompletionBody, raw(PLAIN | {"ignore_eos": True, "stop_token_ids": [7]})).sampling_params(4, (2,))
    assert (both.stop_token_ids, both.ignore_eos) == ((7,), False)
    neither = parse(CompletionBody, raw(PLAIN | {"ignore_eos": True})).sampling_params(4, (2,))
    assert (neither.stop_token_ids, neither.ignore_eos) == ((), True)
    ends = parse(CompletionBody, raw(PLAIN | {"stop_token_ids": [7, 2]})).sampling_params(4, (2,))
    assert ends.stop_token_ids == (7, 2)


def test_a_logit_bias_comes_with_token_ids_as_strings() -> None:
    body = parse(CompletionBody, raw(PLAIN | {"logit_bias": {"50": -100, "7": 1.5}}))
    assert body.logit_bias == ((7, 1.5), (50, -100.0))


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({"response_format": {"type": "json_object"}}, "json_object", ""),
        ({"guided_json": {"type": "object"}}, "json_schema", '{"type": "object"}'),
        ({"guided_json": '{"type":"object"}'}, "json_schema", '{"type": "object"}'),
        ({"guided_regex": "a+"}, "regex", "a+"),
        ({"guided_choice": ["a", "é"]}, "choice", '["a", "é"]'),
        ({"guided_grammar": 'start: "a"'}, "grammar", 'start: "a"'),
        ({"structured_outputs": {"regex": "a", "json": None}}, "regex", "a"),
        ({"structured_outputs": {"json_object": True}}, "json_object", ""),
    ],
)
def test_a_structure_is_asked_for_in_the_words_of_either_api(fields: dict[str, Any], kind: str, text: str) -> None:
    structure = parse(CompletionBody, raw(PLAIN | fields)).structure
    assert structure is not None
    assert (structure.kind, structure.text, structure.field) == (kind, text, next(iter(fields)))


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "text"}}, {"guided_json_object": False}])
def test_no_structure_is_asked_for(fields: dict[str, Any]) -> None:
    assert parse(CompletionBody, raw(PLAIN | fields)).structure is None


def test_two_structures_at_once_are_refused() -> None:
    both = {"guided_regex": "a", "response_format": {"type": "json_object"}}
    assert refused(CompletionBody, PLAIN | both).param == "guided_regex"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 0, "echo": True, "min_tokens": 1}, "min_tokens"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ],
)
def test_fields_of_a_completion_that_contradict_each_other_are_refused(fields: dict[str, Any], param: str) -> None:
    assert refused(CompletionBody, PLAIN | fields).param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "required", "guided_regex": "a"}, "tool_choice"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "no space"}}]}, "tools.0.function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"tools": [TOOL] * 129}, "tools"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"continue_final_message": True}, "continue_final_message"),
    ],
)
def test_fields_of_a_chat_that_contradict_each_other_are_refused(fields: dict[str, Any], param: str) -> None:
    assert refused(ChatBody, CHAT | fields).param == param


def test_a_message_can_be_gone_on_with_only_without_a_new_turn() -> None:
    chat = {"model": "m", "messages": [{"role": "assistant", "content": "so"}], "continue_final_message": True}
    assert parse(ChatBody, raw(chat)).continue_final_message
    assert refused(ChatBody, chat | {"add_generation_prompt": True}).param == "continue_final_message"


def test_a_call_and_its_result_reach_the_template_with_the_arguments_as_an_object() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "2"},
    ]
    told = parse(ChatBody, raw({"model": "m", "messages": messages})).template_messages()
    assert told[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}
    assert told[2] == {"role": "tool", "content": "2", "tool_call_id": "1"}


@pytest.mark.parametrize("arguments", ["{", "[]", "1"])
def test_arguments_of_a_call_that_are_no_object_are_refused(arguments: str) -> None:
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    body = parse(ChatBody, raw({"model": "m", "messages": [message]}))
    with pytest.raises(ApiError) as caught:
        body.template_messages()
    assert caught.value.param == "messages.0.tool_calls.0.function.arguments"


def test_a_call_that_must_be_made_is_held_to_a_schema_whose_references_still_hold() -> None:
    parameters = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/point"}, "self": {"$ref": "#"}},
        "$defs": {"point": {"type": "integer"}},
    }
    tools = [TOOL, {"type": "function", "function": {"name": "g", "parameters": parameters}}]
    structure = parse(ChatBody, raw(CHAT | {"tools": tools, "tool_choice": "required"})).structure
    assert structure is not None
    schema = json.loads(structure.text)
    assert [item["properties"]["name"]["enum"] for item in schema["items"]["anyOf"]] == [["f"], ["g"]]
    moved = schema["$defs"]["tool_1"]
    assert moved["properties"]["at"]["$ref"] == "#/$defs/tool_1/$defs/point"
    assert moved["properties"]["self"]["$ref"] == "#/$defs/tool_1"


def test_no_parallel_calls_means_at_most_one() -> None:
    body = parse(ChatBody, raw(CHAT | {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}))
    assert body.structure is not None
    assert json.loads(body.structure.text)["maxItems"] == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def test_a_chats_flags_are_taken_strictly_too() -> None:
    assert refused(ChatBody, CHAT | {"add_generation_prompt": 1}).param == "add_generation_prompt"
    assert refused(TokenizeChatBody, {"messages": CHAT["messages"], "return_token_strs": "yes"}).param


ALL_KINDS: tuple[type[RequestBody], ...] = (
    CompletionBody,
    ChatBody,
    EmbeddingBody,
    TokenizeBody,
    TokenizeChatBody,
    DetokenizeBody,
)
NAMES = sorted({name for kind in ALL_KINDS for name in (*kind.model_fields, *kind.REFUSED)})


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_any_object_is_taken_or_refused_with_a_status(body: dict[str, object]) -> None:
    for kind in ALL_KINDS:
        try:
            parse(kind, raw(body))
        except ApiError as error:
            assert error.status == 400
            assert error.body()["error"]["message"]
