"""What answers may be asked for beyond their text: several of them, logprobs, echoes, ends, structures, calls."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from server_process import ServerProcess, text_of
from tiny_chat_model import write_tiny_chat_model

PROMPT = "one two three"
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "pick",
        "parameters": {
            "type": "object",
            "properties": {"of": {"enum": ["a", "b"]}},
            "required": ["of"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    model = write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    options = ("--num-blocks", "64", "--threads", "1", "--max-num-seqs", "4", "--max-waiting", "12")
    with ServerProcess(model, *options, "--reasoning-parser", "deepseek_r1") as process:
        yield process


def ids_of(server: ServerProcess, text: str) -> list[int]:
    tokens: list[int] = server.post("/tokenize", {"prompt": text}).json["tokens"]
    return tokens


def sampled(server: ServerProcess, **fields: Any) -> Any:
    return server.complete(PROMPT, temperature=1.0, max_tokens=6, ignore_eos=True, **fields).json


def test_each_of_several_answers_is_what_its_own_seed_gives(server: ServerProcess) -> None:
    together = sampled(server, n=3, seed=5)
    alone = [sampled(server, seed=5 + index)["choices"][0]["text"] for index in range(3)]
    assert [choice["text"] for choice in together["choices"]] == alone
    assert [choice["index"] for choice in together["choices"]] == [0, 1, 2]
    assert len(set(alone)) > 1
    assert together["usage"]["completion_tokens"] == 18
    assert together["usage"]["prompt_tokens"] == sampled(server)["usage"]["prompt_tokens"]


def test_answers_of_several_prompts_are_numbered_prompt_by_prompt(server: ServerProcess) -> None:
    fields: dict[str, Any] = {"max_tokens": 4, "ignore_eos": True}
    both = server.complete(["first", "second"], n=2, **fields).json["choices"]
    texts = [server.complete(prompt, **fields).json["choices"][0]["text"] for prompt in ("first", "second")]
    assert [choice["text"] for choice in both] == [texts[0], texts[0], texts[1], texts[1]]


def test_a_stream_of_several_answers_tells_them_apart(server: ServerProcess) -> None:
    fields: dict[str, Any] = {"n": 2, "seed": 3, "temperature": 1.0, "max_tokens": 6, "ignore_eos": True}
    whole = server.complete(PROMPT, **fields).json["choices"]
    events = list(server.open_stream(PROMPT, stream_options={"include_usage": True}, **fields).events())
    for index in range(2):
        mine = [event for event in events[:-1] if event["choices"][0]["index"] == index]
        assert text_of(mine) == whole[index]["text"]
    assert events[-1]["usage"]["completion_tokens"] == sum(event["lab"]["tokens"] for event in events) == 12


def test_more_answers_than_ever_fit_are_refused_for_good(server: ServerProcess) -> None:
    answer = server.complete(PROMPT, n=17)
    assert (answer.status, answer.error["param"]) == (400, "n")


def test_the_ids_of_a_stream_are_those_of_the_whole_answer_and_come_only_where_they_are_asked_for(
    server: ServerProcess,
) -> None:
    fields: dict[str, Any] = {"max_tokens": 6, "ignore_eos": True, "return_token_ids": True}
    whole = server.complete(PROMPT, **fields).json["choices"][0]["token_ids"]
    events = list(server.open_stream(PROMPT, **fields).events())
    assert len(whole) == 6
    assert [token_id for event in events for token_id in event["choices"][0]["token_ids"]] == whole
    assert "token_ids" not in server.complete(PROMPT, max_tokens=2).json["choices"][0]


def test_logprobs_stand_beside_their_tokens(server: ServerProcess) -> None:
    choice = server.complete(PROMPT, max_tokens=5, ignore_eos=True, logprobs=3).json["choices"][0]
    shown = choice["logprobs"]
    assert [len(shown[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")] == [5] * 4
    for logprob, top in zip(shown["token_logprobs"], shown["top_logprobs"], strict=True):
        assert logprob == max(top.values()) <= 0  # greedy: the chosen one is the most likely
    lengths = [len(token) for token in shown["tokens"]]
    assert shown["text_offset"] == [sum(lengths[:index]) for index in range(5)]


def test_a_stream_has_the_logprobs_of_the_whole_answer(server: ServerProcess) -> None:
    fields: dict[str, Any] = {"max_tokens": 8, "ignore_eos": True, "logprobs": 1}
    whole = server.complete(PROMPT, **fields).json["choices"][0]["logprobs"]
    events = list(server.open_stream(PROMPT, **fields).events())
    streamed = [event["choices"][0]["logprobs"] for event in events]
    for name, values in whole.items():
        assert [value for part in streamed for value in part[name]] == values


def test_a_chats_logprobs_give_bytes_that_make_up_its_text(server: ServerProcess) -> None:
    choice = server.chat("hi", max_tokens=6, ignore_eos=True, logprobs=True, top_logprobs=2).json["choices"][0]
    content = choice["logprobs"]["content"]
    assert len(content) == 6
    assert all(len(entry["top_logprobs"]) == 2 for entry in content)
    assert all(entry["logprob"] <= 0 for entry in content)
    assert server.chat("hi", max_tokens=1).json["choices"][0]["logprobs"] is None


def test_an_echo_scores_the_prompt_too(server: ServerProcess) -> None:
    ids = ids_of(server, PROMPT)
    choice = server.complete(PROMPT, max_tokens=2, ignore_eos=True, echo=True, logprobs=0).json["choices"][0]
    alone = server.complete(PROMPT, max_tokens=2, ignore_eos=True).json["choices"][0]
    assert choice["text"] == PROMPT + alone["text"]
    shown = choice["logprobs"]
    assert "".join(shown["tokens"][: len(ids)]) == PROMPT
    assert shown["token_logprobs"][0] is None
    assert all(math.isfinite(value) for value in shown["token_logprobs"][1:])
    assert len(shown["tokens"]) == len(ids) + 2


def test_an_echo_comes_with_the_first_token_of_a_stream(server: ServerProcess) -> None:
    fields: dict[str, Any] = {"max_tokens": 3, "ignore_eos": True, "echo": True, "logprobs": 1}
    whole = server.complete(PROMPT, **fields).json["choices"][0]
    events = list(server.open_stream(PROMPT, **fields).events())
    assert text_of(events) == whole["text"]
    assert events[0]["choices"][0]["text"].startswith(PROMPT)
    assert events[0]["lab"]["tokens"] >= 1
    streamed = [value for event in events for value in event["choices"][0]["logprobs"]["token_logprobs"]]
    assert streamed == whole["logprobs"]["token_logprobs"]


def test_a_prompt_can_be_scored_without_an_answer(server: ServerProcess) -> None:
    answer = server.complete(PROMPT, max_tokens=0, echo=True, logprobs=1, prompt_logprobs=0).json
    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (PROMPT, "length")
    assert answer["usage"]["completion_tokens"] == 0
    ids = ids_of(server, PROMPT)
    assert len(choice["logprobs"]["tokens"]) == len(choice["prompt_logprobs"]) == len(ids)
    assert choice["prompt_logprobs"][0] is None
    for token_id, entry, logprob in zip(
        ids[1:], choice["prompt_logprobs"][1:], choice["logprobs"]["token_logprobs"][1:], strict=True
    ):
        assert entry[str(token_id)]["logprob"] == logprob
        assert entry[str(token_id)]["rank"] >= 1


def test_a_chats_prompt_can_be_scored(server: ServerProcess) -> None:
    answer = server.chat("hi", max_tokens=1, prompt_logprobs=2).json
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
    assert len(answer["prompt_logprobs"][1]) in (2, 3)


def test_a_stop_token_ends_the_answer_and_is_named(server: ServerProcess) -> None:
    fields: dict[str, Any] = {"max_tokens": 24, "ignore_eos": True}
    free = server.complete(PROMPT, logprobs=0, **fields).json["choices"][0]
    tokens = free["logprobs"]["tokens"]
    at = next(i for i, token in enumerate(tokens) if i >= 3 and token.isascii() and len(token) == 1)
    (stop,) = ids_of(server, tokens[at])
    first = tokens.index(tokens[at])
    choice = server.complete(PROMPT, stop_token_ids=[stop], **fields).json["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert free["text"].startswith(choice["text"])
    kept = server.complete(PROMPT, stop_token_ids=[stop], include_stop_str_in_output=True, **fields).json["choices"][0]
    assert kept["text"] == choice["text"] + tokens[first]
    assert kept["stop_reason"] == stop


def test_a_stop_string_is_named_and_shown_where_it_is_asked_for(server: ServerProcess) -> None:
    fields: dict[str, Any] = {"max_tokens": 30, "ignore_eos": True}
    full = server.complete(PROMPT, **fields).json["choices"][0]["text"]
    stop = full[10:14]
    choice = server.complete(PROMPT, stop=[stop], include_stop_str_in_output=True, **fields).json["choices"][0]
    assert choice["text"] == full[: full.index(stop)] + stop
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)


def test_bad_words_and_biased_tokens_shape_the_answer(server: ServerProcess) -> None:
    letter = ids_of(server, "x")[0]
    choice = server.complete(PROMPT, max_tokens=6, ignore_eos=True, logit_bias={str(letter): 100}).json["choices"][0]
    assert choice["text"] == "x" * 6
    banned = server.complete(PROMPT, max_tokens=6, ignore_eos=True, logit_bias={str(letter): 100}, bad_words=["xx"])
    assert "xx" not in banned.json["choices"][0]["text"]
    unknown = server.complete(PROMPT, logit_bias={"9999999": 1})
    assert (unknown.status, unknown.error["param"]) == (400, "logit_bias")


def test_control_tokens_are_shown_where_they_are_asked_for(server: ServerProcess) -> None:
    (start,) = ids_of(server, "<|im_start|>")
    fields: dict[str, Any] = {"max_tokens": 2, "ignore_eos": True, "logit_bias": {str(start): 100}}
    assert server.complete(PROMPT, **fields).json["choices"][0]["text"] == ""
    shown = server.complete(PROMPT, skip_special_tokens=False, **fields).json["choices"][0]["text"]
    assert shown == "<|im_start|>" * 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_must_be_made_is_made(server: ServerProcess, stream: bool) -> None:
    fields: dict[str, Any] = {"tools": [TOOL], "parallel_tool_calls": False, "max_tokens": 200, "stream": stream}
    answer = server.chat("pick", tool_choice="required", temperature=1.0, seed=1, **fields)
    (call,), reason = calls_of(answer.text) if stream else whole_calls(answer.json)
    assert call["function"]["name"] == "pick"
    assert json.loads(call["function"]["arguments"])["of"] in ("a", "b")
    assert (call["type"], reason) == ("function", "tool_calls")


def test_a_call_that_is_named_is_made_and_ends_as_any_answer(server: ServerProcess) -> None:
    named = {"type": "function", "function": {"name": "pick"}}
    (call,), reason = whole_calls(server.chat("pick", tools=[TOOL], tool_choice=named, max_tokens=100).json)
    assert json.loads(call["function"]["arguments"])["of"] in ("a", "b")
    assert reason == "stop"


def whole_calls(answer: Any) -> tuple[list[Any], str]:
    (choice,) = answer["choices"]
    assert choice["message"]["content"] is None
    return choice["message"]["tool_calls"], choice["finish_reason"]


def calls_of(text: str) -> tuple[list[Any], str]:
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    choices = [event["choices"][0] for event in events]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == ""
    assert [call["index"] for call in calls] == list(range(len(calls)))
    return calls, choices[-1]["finish_reason"]


def test_a_thought_is_not_content_and_its_tokens_are_counted(server: ServerProcess) -> None:
    answer = server.chat("think", max_tokens=12, ignore_eos=True).json
    message = answer["choices"][0]["message"]
    assert message["content"] is None
    assert message["reasoning_content"] == message["reasoning"] != ""
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 12


def test_a_structure_leaves_no_room_for_a_thought(server: ServerProcess) -> None:
    answer = server.chat("yes or no", guided_choice=["yes", "no"], max_tokens=20).json
    assert answer["choices"][0]["message"]["content"] in ("yes", "no")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "["}, "guided_regex"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "bogus"}}}}, "response_format"),
        ({"structured_outputs": {"grammar": "not a grammar"}}, "structured_outputs"),
    ],
)
def test_a_structure_that_cannot_be_is_refused_by_the_clients_name_for_it(
    server: ServerProcess, fields: dict[str, Any], param: str
) -> None:
    answer = server.complete(PROMPT, **fields)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_a_message_is_gone_on_with_where_it_ends(server: ServerProcess) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so I"}]
    body = {"messages": messages, "continue_final_message": True, "return_token_strs": True}
    open_ids = server.post("/tokenize", body).json["tokens"]
    assert server.post("/detokenize", {"tokens": open_ids}).json["prompt"].endswith("assistant\nso I")
    closed = server.post("/tokenize", body | {"continue_final_message": False, "add_generation_prompt": False}).json
    assert server.post("/detokenize", {"tokens": closed["tokens"]}).json["prompt"].endswith("so I<|im_end|>\n")


def test_tokens_come_back_as_the_text_they_were(server: ServerProcess) -> None:
    text = "the <|im_start|> Zürich \U0001f600"
    answer = server.post("/tokenize", {"model": server.model, "prompt": text, "return_token_strs": True}).json
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["max_model_len"] > 0
    assert server.post("/detokenize", {"tokens": answer["tokens"]}).json["prompt"] == text
    assert server.post("/detokenize", {"tokens": []}).json["prompt"] == ""


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {"prompt": 3}, "prompt"),
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model"),
        ("/detokenize", {"tokens": [10**9]}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/v1/embeddings", {"model": "tiny", "input": ""}, "input"),
        ("/v1/embeddings", {"model": "tiny", "input": "a", "dimensions": 3}, "dimensions"),
        ("/v1/embeddings", {"model": "tiny", "input": "a", "encoding_format": "int8"}, "encoding_format"),
        ("/v1/embeddings", {"model": "tiny", "input": ["a"] * 17}, "input"),
        ("/v1/embeddings", {"model": "tiny", "input": [10**9]}, "input"),
        ("/v1/embeddings", {"model": "tiny", "input": "word " * 3000}, "input"),
    ],
)
def test_other_endpoints_name_what_is_wrong_too(
    server: ServerProcess, path: str, body: dict[str, Any], param: str
) -> None:
    answer = server.post(path, body)
    assert (answer.status, answer.error["param"]) in ((400, param), (404, "model"))
    assert answer.error["param"] == param


def test_embeddings_are_unit_vectors_in_the_order_of_their_inputs(server: ServerProcess) -> None:
    body = {"model": server.model, "input": ["first text", "second"]}
    answer = server.post("/v1/embeddings", body).json
    vectors = [item["embedding"] for item in answer["data"]]
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1, 1], abs=1e-4)
    assert [item["index"] for item in answer["data"]] == [0, 1]
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] == 16
    second = server.post("/v1/embeddings", {"model": server.model, "input": ids_of(server, "second")}).json
    assert second["data"][0]["embedding"] == vectors[1]
    coded = server.post("/v1/embeddings", body | {"encoding_format": "base64"}).json["data"][0]["embedding"]
    raw = base64.b64decode(coded)
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == pytest.approx(vectors[0], rel=1e-6)


def test_answers_have_the_fields_of_openais_reference(server: ServerProcess) -> None:
    fields: dict[str, Any] = {"max_tokens": 2, "ignore_eos": True}
    plain = server.complete(PROMPT, **fields).json
    chat = server.chat("hi", **fields).json
    for answer, kind in ((plain, "text_completion"), (chat, "chat.completion")):
        assert answer.keys() == {"id", "object", "created", "model", "choices", "usage", "lab"}
        assert (answer["object"], answer["model"]) == (kind, server.model)
        assert {"prompt_tokens", "completion_tokens", "total_tokens"} < answer["usage"].keys()
    ends = {"index", "logprobs", "finish_reason", "stop_reason"}
    assert plain["choices"][0].keys() == {"text", *ends}
    assert chat["choices"][0].keys() == {"message", *ends}
    text = server.chat("hi", stream=True, **fields).text
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all({"index", "delta", "logprobs", "finish_reason"} <= chunk["choices"][0].keys() for chunk in chunks)


def test_the_version_and_the_model_are_told(server: ServerProcess) -> None:
    assert server.get("/version").json["version"]
    assert server.get(f"/v1/models/{server.model}").json["id"] == server.model
    assert server.get("/v1/models/other").status == 404
