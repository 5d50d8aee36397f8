"""The OpenAI-compatible server, as a process, over HTTP: answers, streams, counts and errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_process import ServerProcess, text_of
from tiny_chat_model import write_tiny_chat_model

from runners.events import EVENT, Step

TIMES = ("received_s", "queued_s", "scheduled_first_s", "prefill_done_s", "finished_s")


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def server(tiny_gguf: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tiny_gguf, "--num-blocks", "64", "--threads", "1", "--max-num-seqs", "4") as process:
        yield process


def test_the_ready_line_says_where_the_server_listens(server: ServerProcess) -> None:
    assert server.ready["event"] == "ready"
    health = server.get("/health")
    assert (health.status, health.json["status"]) == (200, "ok")


def test_the_model_is_listed_under_its_name(server: ServerProcess) -> None:
    (card,) = server.get("/v1/models").json["data"]
    assert (card["id"], card["object"]) == (server.model, "model")


def test_a_completion_has_the_length_asked_for_and_counts_its_tokens(server: ServerProcess) -> None:
    answer = server.complete("one two three", max_tokens=7, ignore_eos=True).json
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["finish_reason"] == "length"
    usage = answer["usage"]
    assert usage["completion_tokens"] == 7
    assert usage["total_tokens"] == usage["prompt_tokens"] + 7


def test_a_stream_gives_the_same_text_as_the_whole_answer(server: ServerProcess) -> None:
    whole = server.complete("stream me", max_tokens=40, ignore_eos=True).json
    events = list(server.open_stream("stream me", max_tokens=40, ignore_eos=True).events())
    assert text_of(events) == whole["choices"][0]["text"]
    assert [event["choices"][0]["finish_reason"] for event in events][-1] == "length"


@pytest.mark.parametrize("seed", range(4))
def test_wild_bytes_come_out_of_a_stream_as_out_of_the_whole_answer(server: ServerProcess, seed: int) -> None:
    wild = {"max_tokens": 60, "ignore_eos": True, "temperature": 2.0, "seed": seed}
    whole = server.complete("anything", **wild).json["choices"][0]["text"]
    assert text_of(list(server.open_stream("anything", **wild).events())) == whole


def test_every_stream_event_says_how_many_tokens_it_carries(server: ServerProcess) -> None:
    stream = server.open_stream("count me", max_tokens=30, ignore_eos=True, stream_options={"include_usage": True})
    events = list(stream.events())
    assert sum(event["lab"]["tokens"] for event in events) == 30
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 30
    assert events[-1]["lab"]["output_tokens"] == 30


@pytest.mark.parametrize("streamed", [False, True])
def test_the_runtimes_times_lie_in_order_on_the_clients_clock(server: ServerProcess, streamed: bool) -> None:
    sent_s = time.monotonic()
    if streamed:
        lab = list(server.open_stream("time me", max_tokens=5, ignore_eos=True).events())[-1]["lab"]
    else:
        lab = server.complete("time me", max_tokens=5, ignore_eos=True).json["lab"]
    times = [sent_s, *(lab[name] for name in TIMES), time.monotonic()]
    assert times == sorted(times)
    assert (lab["preemptions"], lab["draft_tokens"], lab["accepted_tokens"]) == (0, 0, 0)


def test_a_list_of_prompts_gives_one_choice_each_in_order(server: ServerProcess) -> None:
    prompts = ["first prompt", "second", "a third one"]
    together = server.complete(prompts, max_tokens=8, ignore_eos=True).json
    alone = [server.complete(prompt, max_tokens=8, ignore_eos=True).json for prompt in prompts]
    assert [choice["index"] for choice in together["choices"]] == [0, 1, 2]
    assert [choice["text"] for choice in together["choices"]] == [a["choices"][0]["text"] for a in alone]
    assert together["usage"]["completion_tokens"] == 24
    assert len(together["lab"]["prompts"]) == 3


def test_a_stream_of_several_prompts_tells_them_apart(server: ServerProcess) -> None:
    prompts = ["first prompt", "second"]
    events = list(server.open_stream(prompts, max_tokens=8, ignore_eos=True).events())
    for index, prompt in enumerate(prompts):
        mine = [event for event in events if event["choices"][0]["index"] == index]
        assert text_of(mine) == server.complete(prompt, max_tokens=8, ignore_eos=True).json["choices"][0]["text"]


def test_token_ids_are_a_prompt_too(server: ServerProcess) -> None:
    answer = server.complete([5, 6, 7], max_tokens=4, ignore_eos=True)
    assert answer.json["usage"]["prompt_tokens"] == 3
    beyond = server.complete([5, 10**7])
    assert (beyond.status, beyond.error["param"]) == (400, "prompt")


def test_a_seed_fixes_a_sampled_answer(server: ServerProcess) -> None:
    def sampled(seed: int) -> str:
        answer = server.complete("draw", temperature=1.0, seed=seed, max_tokens=24, ignore_eos=True)
        return str(answer.json["choices"][0]["text"])

    assert sampled(1) == sampled(1)
    assert len({sampled(seed) for seed in range(4)}) > 1


def test_a_stop_string_ends_the_answer_before_it(server: ServerProcess) -> None:
    full = server.complete("stop there", max_tokens=48, ignore_eos=True).json["choices"][0]["text"]
    stop = full[len(full) // 2 :][:5]
    expected = full.split(stop)[0]
    whole = server.complete("stop there", max_tokens=48, ignore_eos=True, stop=stop).json
    assert whole["choices"][0]["text"] == expected
    assert whole["choices"][0]["finish_reason"] == "stop"
    events = list(server.open_stream("stop there", max_tokens=48, ignore_eos=True, stop=[stop]).events())
    assert text_of(events) == expected
    assert sum(event["lab"]["tokens"] for event in events) == whole["usage"]["completion_tokens"] < 48
    times = [whole["lab"][name] for name in TIMES]
    assert times == sorted(times)


def test_a_prompt_seen_before_is_counted_as_cached(server: ServerProcess) -> None:
    prompt = list(range(10, 10 + 100))
    first, second = (server.complete(prompt, max_tokens=2).json for _ in range(2))
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == 96
    assert second["lab"]["cached_tokens"] == 96


def test_a_chat_answers_as_the_assistant_and_streams_the_same(server: ServerProcess) -> None:
    answer = server.chat("hello", max_tokens=12, ignore_eos=True).json
    message = answer["choices"][0]["message"]
    assert (answer["object"], message["role"]) == ("chat.completion", "assistant")
    body = {"model": server.model, "messages": [{"role": "user", "content": "hello"}], "stream": True}
    text = server.post("/v1/chat/completions", body | {"temperature": 0, "max_tokens": 12, "ignore_eos": True}).text
    assert text.endswith("data: [DONE]\n\n")
    assert '"role":"assistant"' in text.split("\n\n")[0]


def test_max_completion_tokens_limits_a_chat(server: ServerProcess) -> None:
    answer = server.chat("hello", max_tokens=None, max_completion_tokens=3, ignore_eos=True).json
    assert answer["usage"]["completion_tokens"] == 3


def test_the_clients_request_id_becomes_the_requests_own(server: ServerProcess) -> None:
    body = {"model": server.model, "prompt": "hi", "max_tokens": 2}
    answer = server.post("/v1/completions", body, {"X-Request-Id": "mine-7"})
    assert answer.headers["X-Request-Id"] == "mine-7"
    assert answer.json["lab"]["request_id"] == "mine-7"
    assert answer.json["id"] == "cmpl-mine-7"


def test_a_request_id_in_flight_is_refused_and_the_first_goes_on(server: ServerProcess) -> None:
    body = {"model": server.model, "prompt": "hi", "max_tokens": 300, "ignore_eos": True}
    answers: list[Any] = []

    def send() -> None:
        answers.append(server.post("/v1/completions", body, {"X-Request-Id": "twin"}))

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200, 409]


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"best_of": 2}, "best_of", "unsupported_value"),
        ({"suffix": "end"}, "suffix", "unsupported_value"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"max_tokens": 10**6}, "max_tokens", "context_length_exceeded"),
        ({"prompt": list(range(3)) * 9000}, "prompt", "context_length_exceeded"),
        ({"prompt": "word " * 600_000}, "prompt", "context_length_exceeded"),
        ({"prompt": ""}, "prompt", "invalid_value"),
        ({"min_tokens": 20, "max_tokens": 10}, "min_tokens", "invalid_value"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_field_is_a_400_that_names_it(
    server: ServerProcess, fields: dict[str, Any], param: str, code: str, stream: bool
) -> None:
    answer = server.complete(**{"prompt": "hi", "stream": stream, **fields})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)
    assert answer.error["type"] == "invalid_request_error"


def test_an_unknown_model_is_a_404(server: ServerProcess) -> None:
    answer = server.complete("hi", model="gpt-unknown")
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")


def test_unknown_paths_and_methods_answer_with_the_error_object(server: ServerProcess) -> None:
    assert (server.get("/v1/nothing").status, server.get("/v1/completions").status) == (404, 405)
    assert server.get("/v1/nothing").error["type"] == "invalid_request_error"


def test_a_body_that_is_too_large_is_a_413(server: ServerProcess) -> None:
    answer = server.post("/v1/completions", b'{"prompt": "' + b"x" * (9 * 1024 * 1024) + b'"}')
    assert (answer.status, answer.error["code"]) == (413, "body_too_large")


def test_steps_are_read_once_each_and_are_events_of_the_lab(server: ServerProcess) -> None:
    after = server.get("/lab/steps?limit=5000").json["next"]
    server.complete("steps", max_tokens=9, ignore_eos=True)
    page = server.get(f"/lab/steps?after={after}&limit=4").json
    rest = server.get(f"/lab/steps?after={page['next']}").json
    steps = [EVENT.validate_python(step) for step in page["steps"] + rest["steps"]]
    assert all(isinstance(step, Step) for step in steps)
    assert [step.index for step in steps] == list(range(after + 1, after + 10))
    assert sum(step.decode_tokens for step in steps) == 8
    assert page["dropped"] == rest["dropped"] == 0
    assert rest["now_s"] >= steps[-1].start_s + steps[-1].duration_s
    assert rest["now"]["kv_used_blocks"] == 0


@pytest.mark.parametrize("query", ["after=x", "after=-1", "limit=0", "limit=999999"])
def test_a_bad_query_of_steps_is_named(server: ServerProcess, query: str) -> None:
    answer = server.get(f"/lab/steps?{query}")
    assert (answer.status, answer.error["param"]) == (400, query.split("=")[0])


def test_metrics_count_tokens_and_requests(server: ServerProcess) -> None:
    names = ("generation_tokens_total", "prompt_tokens_total", "request_success_total")
    before = {name: server.gauge(name) for name in (*names, "time_to_first_token_seconds_count")}
    server.complete([1, 2, 3, 4], max_tokens=6, ignore_eos=True)
    grown = {name: server.gauge(name) - value for name, value in before.items()}
    assert list(grown.values()) == [6, 4, 1, 1]
    assert server.gauge("num_requests_running") == server.gauge("num_requests_waiting") == 0
