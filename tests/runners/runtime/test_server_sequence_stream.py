"""What a sequence has produced reaches its client once, in order, merged where the client is slow."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.runtime.sequence import TokenLogprob, TokenLogprobs
from runners.runtime.serving.detokenize import Detokenizer
from runners.runtime.serving.errors import ApiError, unavailable
from runners.runtime.serving.sequence_stream import (
    Delta,
    SequenceStream,
    StopTokens,
    deltas,
    wait_accepted,
)

TOKENS = [b"a", b"b", "é".encode()[:1], "é".encode()[1:], b"c", b"d"]


def new_stream(stops: tuple[str, ...] = (), wake: asyncio.Event | None = None) -> SequenceStream:
    return SequenceStream("r", (1,), Detokenizer(TOKENS.__getitem__, stops), wake or asyncio.Event(), 0.0)


def test_what_a_client_has_not_taken_is_merged() -> None:
    stream = new_stream()
    for token in range(4):
        stream.push(token)
    assert stream.take() == Delta("abé", 4, token_ids=(0, 1, 2, 3))
    assert stream.take() is None


def test_a_token_whose_text_is_held_back_is_told_all_the_same() -> None:
    stream = new_stream()
    stream.push(2)
    assert stream.take() == Delta("", 1, token_ids=(2,))
    stream.push(3)
    assert stream.take() == Delta("é", 1, token_ids=(3,))


def test_logprobs_come_with_the_tokens_they_belong_to() -> None:
    stream = new_stream()
    first, second = (TokenLogprobs(TokenLogprob(token, -0.5, 1)) for token in (0, 1))
    stream.push(0, first)
    stream.push(1, second)
    assert stream.take() == Delta("ab", 2, None, (first, second), token_ids=(0, 1))
    stream.push(4)
    assert stream.take() == Delta("c", 1, token_ids=(4,))


def test_the_last_delta_comes_once_with_the_reason() -> None:
    stream = new_stream()
    stream.push(0)
    stream.finish("length", None)
    assert stream.take() == Delta("a", 1, "length", token_ids=(0,))
    assert stream.take() is None


def test_tokens_after_a_stop_string_are_dropped_until_the_engine_lets_go() -> None:
    stream = new_stream(("b",))
    for token in (0, 1, 4, 5):
        stream.push(token)
    assert stream.stopping
    assert stream.take() == Delta("a", 2, token_ids=(0, 1))
    stream.finish("length", None)
    assert not stream.stopping
    assert stream.take() == Delta("", 0, "stop")
    assert stream.num_output_tokens == 2


def stream_with_stop_token(hidden: bool) -> SequenceStream:
    """Token 1, `b`, is the client's stop token; token 4, `c`, the model's own end."""
    tokens = StopTokens(frozenset({1}), frozenset({1, 4} if hidden else ()))
    return SequenceStream("r", (1,), Detokenizer(TOKENS.__getitem__), asyncio.Event(), 0.0, "prompt", tokens)


@pytest.mark.parametrize(("hidden", "text"), [(True, "a"), (False, "ab")])
def test_a_stop_token_is_named_and_its_text_left_out_unless_it_is_wanted(hidden: bool, text: str) -> None:
    stream = stream_with_stop_token(hidden)
    stream.push(0)
    stream.push(1)
    stream.finish("stop", None)
    assert stream.take() == Delta(text, 2, "stop", token_ids=(0, 1))
    assert stream.stop_reason == 1


def test_the_models_own_end_is_no_reason_to_name() -> None:
    stream = stream_with_stop_token(True)
    stream.push(0)
    stream.push(4)
    stream.finish("stop", None)
    assert stream.take() == Delta("a", 2, "stop", token_ids=(0, 4))
    assert stream.stop_reason is None


def test_a_stop_token_that_did_not_end_the_sequence_is_text() -> None:
    stream = stream_with_stop_token(True)
    for token in (1, 0, 1):
        stream.push(token)
    stream.finish("length", None)
    assert stream.take() == Delta("bab", 3, "length", token_ids=(1, 0, 1))
    assert stream.stop_reason is None


def test_a_stop_string_is_named() -> None:
    stream = new_stream(("b",))
    stream.push(0)
    stream.push(1)
    stream.finish("length", None)
    assert (stream.finish_reason, stream.stop_reason) == ("stop", "b")


def test_logprobs_come_with_their_tokens() -> None:
    entry = TokenLogprobs(TokenLogprob(0, -1.0, 1))
    stream = new_stream()
    stream.push(0, entry)
    assert stream.take() == Delta("a", 1, logprobs=(entry,), token_ids=(0,))
    stream.push(1)
    assert stream.take() == Delta("b", 1, token_ids=(1,))


@given(st.lists(st.booleans(), min_size=6, max_size=6), st.sampled_from([(), ("b",), ("éc",), ("dx",)]))
def test_any_pace_of_reading_gives_the_same_text_and_count(reads: list[bool], stops: tuple[str, ...]) -> None:
    def read(pace: list[bool]) -> tuple[str, int]:
        stream, taken = new_stream(stops), []
        for token, read_now in enumerate(pace):
            stream.push(token)
            taken += [stream.take()] if read_now else []
        stream.finish("length", None)
        kept = [delta for delta in [*taken, stream.take()] if delta is not None]
        return "".join(delta.text for delta in kept), sum(delta.num_tokens for delta in kept)

    assert read(reads) == read([False] * 6)


async def test_an_error_ends_the_reading_and_nothing_follows() -> None:
    wake = asyncio.Event()
    stream = new_stream(wake=wake)
    stream.push(0)
    seen = []
    with pytest.raises(ApiError, match="gone"):
        async for _, delta in deltas([stream], wake):
            seen.append(delta)
            stream.fail(unavailable("gone", "engine_unavailable"))
    assert seen == [Delta("a", 1, token_ids=(0,))]


async def test_sequences_of_one_request_are_read_as_they_come() -> None:
    wake = asyncio.Event()
    streams = [new_stream(wake=wake), new_stream(wake=wake)]
    seen = []

    async def read() -> None:
        seen.extend([(index, delta.text, delta.finish_reason) async for index, delta in deltas(streams, wake)])

    reader = asyncio.create_task(read())
    for index in (1, 0):
        streams[index].push(index)
        streams[index].finish("stop", None)
        await asyncio.sleep(0)
    await asyncio.wait_for(reader, 5)
    assert sorted(seen) == [(0, "a", "stop"), (1, "b", "stop")]


async def test_acceptance_waits_for_every_sequence_and_a_refusal_ends_it() -> None:
    wake = asyncio.Event()
    streams = [new_stream(wake=wake), new_stream(wake=wake)]
    streams[0].accept()
    waiter = asyncio.create_task(wait_accepted(streams, wake))
    await asyncio.sleep(0)
    assert not waiter.done()
    streams[1].fail(ApiError(400, "no"))
    with pytest.raises(ApiError, match="no"):
        await asyncio.wait_for(waiter, 5)
