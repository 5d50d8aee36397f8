"""The server with the sample model: sensible answers, in both precisions, many at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from server_process import ServerProcess

MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="module", params=["bf16", "int8"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with ServerProcess(MODEL, "--weights", request.param, "--threads", "2", "--num-blocks", "256") as process:
        yield process


def test_the_registered_name_is_what_is_served(server: ServerProcess) -> None:
    assert server.model == MODEL
    assert server.get("/v1/models").json["data"][0]["max_model_len"] > 1000


def test_a_chat_knows_the_capital_of_france_and_ends_by_itself(server: ServerProcess) -> None:
    answer = server.chat("What is the capital of France? Answer in one short sentence.", max_tokens=60).json
    assert "Paris" in answer["choices"][0]["message"]["content"]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "<|im_end|>" not in answer["choices"][0]["message"]["content"]


def test_a_completion_goes_on_with_the_text(server: ServerProcess) -> None:
    answer = server.complete("The quick brown fox jumps over the lazy", max_tokens=3).json
    assert answer["choices"][0]["text"].startswith(" dog")


def test_a_stop_string_cut_out_of_a_real_answer_ends_it_there(server: ServerProcess) -> None:
    full = server.complete("Once upon a time", max_tokens=30).json["choices"][0]["text"]
    stop = full[len(full) // 2 :][:7]
    answer = server.complete("Once upon a time", max_tokens=30, stop=stop).json
    assert answer["choices"][0]["text"] == full.split(stop)[0]
    assert answer["choices"][0]["finish_reason"] == "stop"


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def test_a_tool_that_must_be_called_is_called_with_what_was_asked(server: ServerProcess) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    answer = server.chat("What is the weather in Paris?", tools=[WEATHER], tool_choice=named, max_tokens=60).json
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}


def test_an_answer_under_a_schema_is_json_of_that_schema(server: ServerProcess) -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    form = {
        "type": "json_schema",
        "json_schema": {"name": "colour", "schema": schema | {"additionalProperties": False}},
    }
    choice = server.chat("Name a colour.", response_format=form, temperature=1.0, seed=3).json["choices"][0]
    assert json.loads(choice["message"]["content"])["colour"] in ("red", "blue")
    assert choice["finish_reason"] == "stop"


def test_a_likely_continuation_has_the_better_logprob(server: ServerProcess) -> None:
    def score(end: str) -> float:
        text = f"The capital of France is {end}"
        choice = server.complete(text, max_tokens=0, echo=True, logprobs=0).json["choices"][0]
        return float(choice["logprobs"]["token_logprobs"][-1])

    assert score("Paris") > score("Berlin") > score("banana")


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def test_texts_that_mean_alike_lie_closer(server: ServerProcess) -> None:
    texts = ["The cat sleeps on the sofa.", "A cat is sleeping on the couch.", "Interest rates rose by two percent."]
    data = server.post("/v1/embeddings", {"model": MODEL, "input": texts}).json["data"]
    first, alike, other = (item["embedding"] for item in data)
    assert dot(first, alike) > dot(first, other)


def test_chats_at_once_answer_as_each_would_alone(server: ServerProcess) -> None:
    questions = [f"What is {n} plus {n}?" for n in range(2, 6)]
    alone = [server.chat(question, max_tokens=12).json["choices"] for question in questions]
    together: dict[int, object] = {}

    def ask(index: int) -> None:
        together[index] = server.chat(questions[index], max_tokens=12).json["choices"]

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(questions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[index] for index in range(len(questions))] == alone
