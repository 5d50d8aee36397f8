"""Bodies are taken as OpenAI's clients send them, and refused by the name of the field."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.runtime.serving.errors import ApiError
from runners.runtime.serving.protocol import UNSUPPORTED, ChatBody, CompletionBody, parse

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PLAIN: dict[str, Any] = {"model": "m", "prompt": "hi"}


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


@pytest.mark.parametrize("field", sorted(UNSUPPORTED))
def test_what_would_change_the_answer_and_is_not_there_is_refused_by_name(field: str) -> None:
    for kind, body in ((CompletionBody, PLAIN), (ChatBody, CHAT)):
        error = refused(kind, body | {field: "something else"})
        assert error.param == field
        assert "not yet supported" in error.message


@pytest.mark.parametrize(("field", "values"), sorted(UNSUPPORTED.items()))
def test_values_that_ask_for_nothing_are_taken(field: str, values: tuple[object, ...]) -> None:
    for value in values:
        parse(CompletionBody, raw(PLAIN | {field: value}))


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
        ("stop", ["a"] * 5),
        ("stop", [""]),
        ("stop", 3),
        ("stop", "x" * 1001),
        ("stream", "yes"),
        ("ignore_eos", 1),
        ("model", 3),
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
        ({"role": "tool", "content": "x"}, "messages.0.role"),
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
    assert body.messages[0].for_template() == {"role": "system", "content": "ab"}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff", b'"x"', b"[" * 100_000, b'{"a":' * 100_000, b'{"a": ' + b"1" * 5000 + b"}"],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert refused(CompletionBody, body).code == "invalid_json"


def test_not_a_number_is_no_temperature() -> None:
    assert refused(CompletionBody, b'{"model":"m","prompt":"a","temperature":NaN}').param == "temperature"


def test_a_lone_surrogate_is_refused_where_it_stands() -> None:
    assert refused(CompletionBody, {"model": "m", "prompt": ["a", "\ud800"]}).param == "prompt.1"
    assert refused(CompletionBody, PLAIN | {"stop": "\ud800"}).param == "stop.0"


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
    assert parse(CompletionBody, raw(PLAIN | {"seed": 5})).sampling_params(4, ()).seed == 5


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*CompletionBody.model_fields, *ChatBody.model_fields, "n"]), json_values))
def test_any_object_is_taken_or_refused_with_a_status(body: dict[str, object]) -> None:
    for kind in (CompletionBody, ChatBody):
        try:
            parse(kind, raw(body))
        except ApiError as error:
            assert error.status == 400
            assert error.body()["error"]["message"]
