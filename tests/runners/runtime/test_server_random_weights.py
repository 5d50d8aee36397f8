"""A server of a model that has no words: token ids in, ids out, and whatever needs words is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from server_process import ServerProcess

from runners.shapes import resolve
from runners.spec import ShapedModel

SHAPE = {"layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 300, "max_model_len": 256}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    shape = resolve(ShapedModel.model_validate({"shape": SHAPE}))
    with ServerProcess(
        shape.name, "--shape", json.dumps(shape.shape), "--threads", "1", "--num-blocks", "32"
    ) as running:
        yield running


def test_ids_are_answered_with_ids(server: ServerProcess) -> None:
    assert server.model.startswith("shape-") and server.ready["facts"]["architecture"] == "random"
    answer = server.complete([5, 6, 7], max_tokens=4, echo=True).json
    ids = [int(word) for word in answer["choices"][0]["text"].split()]
    assert ids[:3] == [5, 6, 7] and len(ids) == 7 and all(0 <= each < 300 for each in ids)
    assert answer["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": "Hello", "max_tokens": 4}, "prompt"),
        ("/v1/completions", {"prompt": [1], "bad_words": ["no"]}, "bad_words.0"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}, "messages"),
        ("/v1/embeddings", {"input": "Hello"}, "input"),
        ("/tokenize", {"prompt": "Hello"}, "prompt"),
        ("/v1/completions", {"prompt": [1], "guided_regex": "[a-z]+"}, "guided_regex"),
    ],
)
def test_what_needs_words_is_refused(server: ServerProcess, path: str, body: dict[str, object], param: str) -> None:
    answer = server.post(path, {"model": server.model, **body})
    assert answer.status == 400 and answer.error["param"] == param, answer.text


def test_an_id_outside_the_shape_is_refused(server: ServerProcess) -> None:
    answer = server.complete([300])
    assert answer.status == 400 and "0 to 299" in answer.error["message"]


def test_ids_are_told_for_ids(server: ServerProcess) -> None:
    assert server.post("/detokenize", {"tokens": [4, 2]}).json["prompt"] == "4 2"


@pytest.mark.parametrize("shape", ["{", "[]", '{"layers": 2}'])
def test_a_server_does_not_start_with_what_is_no_shape(shape: str) -> None:
    command = [sys.executable, "-m", "runners.runtime.server", "--model", "x", "--shape", shape]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "--shape" in ended.stderr and "Traceback" not in ended.stderr
