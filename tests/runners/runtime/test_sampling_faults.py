"""Requests with structures, logprobs and embeddings when their engine dies."""

from __future__ import annotations

import threading
from pathlib import Path

from server_process import Answer, ServerProcess, wait_until
from tiny_chat_model import write_tiny_chat_model

ENDLESS = {"structured_outputs": {"regex": "a+"}, "ignore_eos": True, "max_tokens": 1500, "logprobs": 2}


def test_the_death_of_the_engine_ends_requests_with_structures_too(tmp_path: Path) -> None:
    model = write_tiny_chat_model(tmp_path / "tiny.gguf")
    with ServerProcess(model, "--max-num-seqs", "1", "--threads", "1") as server:
        events = server.open_stream("doomed", **ENDLESS).events()
        assert next(events)["choices"][0]["text"].startswith("a")
        engine = server.engine()
        engine.suspend()  # so that no speed of the model finishes it
        answers: list[Answer] = []
        waiters = [
            threading.Thread(target=lambda: answers.append(server.complete("doomed too", **ENDLESS))),
            threading.Thread(
                target=lambda: answers.append(server.post("/v1/embeddings", {"model": server.model, "input": "x"}))
            ),
        ]
        for waiter in waiters:
            waiter.start()
        wait_until(lambda: server.get("/lab/steps").json["in_flight"] == 3)
        engine.kill()
        assert list(events)[-1]["error"]["code"] == "engine_unavailable"
        for waiter in waiters:
            waiter.join()
        assert [(answer.status, answer.error["code"]) for answer in answers] == [(503, "engine_unavailable")] * 2
        assert server.process.wait(20) == 1
