"""The server with the sample model: sensible answers, in both precisions, many at once."""

from __future__ import annotations

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
