"""What the engine says of logprobs, embeddings and failures reaches the request's stream."""

from __future__ import annotations

import asyncio

from runners.runtime.engine import EngineStats, RequestTiming
from runners.runtime.sequence import SamplingParams, TokenLogprob, TokenLogprobs
from runners.runtime.serving.detokenize import Detokenizer
from runners.runtime.serving.engine_client import EngineClient
from runners.runtime.serving.messages import Progress, Ready
from runners.runtime.serving.metrics import ServerMetrics
from runners.runtime.serving.sequence_stream import SequenceStream
from runners.runtime.serving.steps import FIELDS, StepRing

STATS = EngineStats(0, 0, 0, 0, 8, 0)
STEP = (0.0,) * len(FIELDS)
TIMING = RequestTiming(0.0, 0.1, 0.2, 0.3, preemptions=0, cached_tokens=0)
LOGPROBS = TokenLogprobs(TokenLogprob(1, -0.5, 1))


def in_flight(*stops: str) -> tuple[EngineClient, SequenceStream]:
    """A client whose engine is up, and a stream that it has taken."""
    client = EngineClient(ServerMetrics("tiny"), StepRing(), max_in_flight=4)
    client.ready.set_result(Ready(64, STATS, {}))
    stream = SequenceStream("r", (1, 2), Detokenizer([b"a", b"b"].__getitem__, stops), asyncio.Event(), 0.0)
    client.submit(stream, SamplingParams(), 0)
    return client, stream


async def test_prompt_logprobs_are_there_with_the_first_token() -> None:
    client, stream = in_flight()
    token = (stream.key, 1, None, None, LOGPROBS)
    client._handle(Progress(STEP, (token,), STATS, prompt_logprobs=((stream.key, (None, LOGPROBS)),)))
    delta = stream.take()
    assert delta is not None and delta.logprobs == (LOGPROBS,)
    assert stream.prompt_logprobs == (None, LOGPROBS)
    assert client.in_flight == 1


async def test_an_embedding_finishes_its_request() -> None:
    client, stream = in_flight()
    client._handle(Progress(STEP, (), STATS, embeddings=((stream.key, (0.6, 0.8), TIMING),)))
    assert (stream.embedding, stream.finish_reason, stream.timing) == ((0.6, 0.8), "stop", TIMING)
    assert client.in_flight == 0


async def test_a_failure_is_the_clients_own_error_and_names_the_field() -> None:
    client, stream = in_flight()
    client._handle(
        Progress(STEP, (), STATS, failures=((stream.key, "response_format", "response_format: too complex"),))
    )
    assert stream.error is not None
    assert (stream.error.status, stream.error.param) == (400, "response_format")
    assert client.in_flight == 0


async def test_a_failure_after_a_stop_string_changes_nothing() -> None:
    client, stream = in_flight("b")
    token = (stream.key, 1, None, None, None)
    client._handle(Progress(STEP, (token,), STATS))
    client._handle(
        Progress(STEP, (), STATS, failures=((stream.key, "response_format", "response_format: too complex"),))
    )
    assert (stream.error, stream.finish_reason) == (None, "stop")
    assert client.in_flight == 0
