"""Whatever is sent, the answer is JSON with a status that fits, and the engine holds nothing afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_process import ServerProcess, wait_until
from tiny_chat_model import write_tiny_chat_model

from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.protocol.completions import CompletionBody
from runners.runtime.serving.protocol.embeddings import EmbeddingBody
from runners.runtime.serving.protocol.tokens import DetokenizeBody, TokenizeBody, TokenizeChatBody

SMALL = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MESSAGE = {"role": "user", "content": "hi"}
FUNCTION = {"name": "f", "parameters": {"type": "object"}}

# A body of each endpoint that is taken, so that a single odd field is what it is refused for.
GOOD: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "hi", "max_tokens": 2},
    "/v1/chat/completions": {"messages": [MESSAGE], "max_tokens": 2},
    "/v1/embeddings": {"input": "hi"},
    "/tokenize": {"prompt": "hi"},
    "/detokenize": {"tokens": [1]},
}
FIELDS = {
    "/v1/completions": sorted(CompletionBody.model_fields),
    "/v1/chat/completions": sorted(ChatBody.model_fields),
    "/v1/embeddings": sorted(EmbeddingBody.model_fields),
    "/tokenize": sorted({*TokenizeBody.model_fields, *TokenizeChatBody.model_fields}),
    "/detokenize": sorted(DetokenizeBody.model_fields),
}
ODD = [
    *(-1, 0, 1, 2, 10**30, -(2**63), 2**63, 1e308, -0.0, float("nan"), float("inf"), True, None),
    *("", "a", "\x00", "\ud800", "é" * 100, "<|im_start|>", "{{ 7 * 7 }}", "%s%n"),
    *([], {}, [[]], [{}], [None], ["a"], [1], {"type": "json_object"}, {"type": "json_schema", "json_schema": {}}),
    *({"1": 5}, {"\ud800": 1}, {"include_usage": True}, {"role": "tool", "content": "x"}, [MESSAGE]),
    *([{"type": "function", "function": FUNCTION}], {"type": "function", "function": {"name": "f"}}),
    *({"json": {"$ref": "#"}}, {"regex": "(a*)*b"}, {"$ref": "#/nowhere"}, {"enum": []}, "[", "(?=a)"),
]
VALUES = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    model = write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    # A short context, so that what asks for no length ends soon all the same.
    options = ("--num-blocks", "64", "--threads", "1", "--max-model-len", "96")
    with ServerProcess(model, *options) as process:
        yield process
        wait_until(lambda: process.held_blocks() == 0 and process.get("/lab/steps").json["in_flight"] == 0)
        assert process.complete("still there", max_tokens=1).status == 200


def check(server: ServerProcess, path: str, raw: bytes) -> int:
    answer = server.post(path, raw)
    assert answer.status in (200, 400, 404, 413), answer.text[:500]
    if answer.status != 200:
        assert answer.error.keys() == {"message", "type", "param", "code"}
        assert answer.error["message"]
    elif answer.headers["Content-Type"].startswith("application/json"):
        assert isinstance(answer.json, dict)
    else:
        assert answer.text.endswith("data: [DONE]\n\n") or '"error"' in answer.text
    return answer.status


@SMALL
@given(st.data())
def test_any_value_of_any_field_is_taken_or_refused(server: ServerProcess, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(GOOD)))
    odd = data.draw(st.dictionaries(st.sampled_from(FIELDS[path]), VALUES, min_size=1, max_size=2))
    body = {"model": server.model, **GOOD[path], **odd}
    check(server, path, json.dumps(body).encode())


@SMALL
@given(path=st.sampled_from(sorted(GOOD)), raw=st.binary(max_size=60))
def test_any_bytes_are_refused(server: ServerProcess, path: str, raw: bytes) -> None:
    assert check(server, path, raw) == 400


@pytest.mark.parametrize("path", sorted(GOOD))
@pytest.mark.parametrize("raw", [b"[" * 50_000, b'{"a":' * 50_000, b'{"model": ' + b"9" * 50_000 + b"}", b"null", b""])
def test_what_no_parser_likes_is_refused(server: ServerProcess, path: str, raw: bytes) -> None:
    assert check(server, path, raw) == 400


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"properties": {"a": value}, "items": [value] if depth < 5 else []}
    return value


@pytest.mark.parametrize(
    "fields",
    [
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": nested(28)}}],
            "tool_choice": "required",
        },
        {"guided_json": nested(200)},
        {"guided_regex": "(" * 2000 + ")" * 2000},
        {"guided_regex": "a{1000}{1000}{1000}"},
        {"guided_choice": ["x" * 9000] * 1000},
        {"chat_template_kwargs": {"x" * 70_000: nested(50)}},
        {"messages": [{"role": "user", "content": "<|im_start|>" * 20_000}]},
        {"messages": [MESSAGE] * 4097},
        {"logit_bias": {str(i): float("nan") for i in range(10)}},
        {"stop": ["\ud83d"]},
    ],
)
def test_what_is_built_to_hurt_is_answered_soon(server: ServerProcess, fields: dict[str, Any]) -> None:
    body = {"model": server.model, **GOOD["/v1/chat/completions"], **fields}
    check(server, "/v1/chat/completions", json.dumps(body).encode())


@pytest.mark.parametrize("identity", ["a b", "x" * 129, "é", "id;rm"])
def test_a_request_id_that_is_not_plain_is_refused(server: ServerProcess, identity: str) -> None:
    body = {"model": server.model, "prompt": "hi", "max_tokens": 1}
    answer = server.post("/v1/completions", body, {"X-Request-Id": identity})
    assert (answer.status, answer.error["param"]) == (400, "X-Request-Id")
