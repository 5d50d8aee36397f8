"""Text comes out the same however its bytes were cut into tokens, and never a character of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runners.runtime.serving.detokenize import Detokenizer, StopMatcher

small_texts = st.text(alphabet="abé漢🙂", max_size=30)
small_stops = st.lists(st.text(alphabet="abé漢🙂", min_size=1, max_size=5), min_size=1, max_size=4)


@st.composite
def cuts(draw: st.DrawFn, raw: bytes) -> list[bytes]:
    """`raw` as tokens of any length, empty ones (control tokens) among them."""
    places = draw(st.lists(st.integers(0, len(raw)), max_size=len(raw) + 3).map(sorted))
    return [raw[a:b] for a, b in pairwise([0, *places, len(raw)])]


def run(tokens: list[bytes], stops: Sequence[str] = (), min_tokens: int = 0) -> list[str]:
    """The pieces that come out, one per token that was still taken, and the rest at the end."""
    detokenizer = Detokenizer(tokens.__getitem__, stops, min_tokens)
    pieces = []
    for index in range(len(tokens)):
        pieces.append(detokenizer.push(index))
        if detokenizer.stopped:
            return pieces
    return [*pieces, detokenizer.finish()]


def first_completed_stop(text: str, stops: list[str]) -> int | None:
    """Where the text ends, by the plainest reading of the rule: look at ever longer beginnings of the text."""
    for end in range(1, len(text) + 1):
        found = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if found:
            return min(found)
    return None


@given(st.data(), st.text(max_size=40))
def test_text_is_whole_however_its_bytes_are_cut(data: st.DataObject, text: str) -> None:
    assert "".join(run(data.draw(cuts(text.encode())))) == text


@given(st.data(), st.binary(max_size=40))
def test_invalid_bytes_become_what_a_decode_of_the_whole_gives(data: st.DataObject, raw: bytes) -> None:
    assert "".join(run(data.draw(cuts(raw)))) == raw.decode("utf-8", errors="replace")


@given(st.data(), st.text(max_size=40))
def test_a_character_comes_out_with_its_last_byte_and_no_later(data: st.DataObject, text: str) -> None:
    tokens = data.draw(cuts(text.encode()))
    pieces, seen = run(tokens), b""
    for index, token in enumerate(tokens):
        seen += token
        assert "".join(pieces[: index + 1]) == seen.decode("utf-8", errors="ignore")


@given(st.data(), small_texts, st.text(alphabet="abé漢🙂", min_size=1, max_size=5))
def test_text_ends_before_the_first_occurrence_of_one_stop_string(data: st.DataObject, text: str, stop: str) -> None:
    assert "".join(run(data.draw(cuts(text.encode())), [stop])) == text.split(stop)[0]


@given(st.data(), small_texts, small_stops)
def test_of_several_stop_strings_the_one_complete_first_ends_the_text(
    data: st.DataObject, text: str, stops: list[str]
) -> None:
    assert "".join(run(data.draw(cuts(text.encode())), stops)) == text[: first_completed_stop(text, stops)]


@given(st.data(), small_texts, small_stops)
def test_every_cut_of_the_same_text_gives_the_same(data: st.DataObject, text: str, stops: list[str]) -> None:
    raw = text.encode()
    assert "".join(run(data.draw(cuts(raw)), stops)) == "".join(run(data.draw(cuts(raw)), stops))


@given(st.data(), small_texts, small_stops)
def test_what_came_out_never_has_to_be_taken_back(data: st.DataObject, text: str, stops: list[str]) -> None:
    pieces = run(data.draw(cuts(text.encode())), stops)
    final = "".join(pieces)
    assert all(final.startswith("".join(pieces[:count])) for count in range(len(pieces) + 1))
    assert not any(stop in final for stop in stops)


@given(st.text(alphabet="ab", max_size=20), small_stops)
def test_only_a_tail_that_may_become_a_stop_string_is_held_back(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    out = "".join(matcher.push(character) for character in text)
    if not matcher.stopped:
        held = text[len(out) :]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_a_stop_string_that_spans_three_tokens_is_found_at_its_last() -> None:
    detokenizer = Detokenizer([b"one <", b"/en", b"d> two"].__getitem__, ["</end>"])
    assert detokenizer.push(0) == "one "
    assert detokenizer.push(1) == ""
    assert not detokenizer.stopped
    assert detokenizer.push(2) == ""
    assert detokenizer.stopped
    assert detokenizer.finish() == ""


def test_the_beginning_of_a_stop_string_comes_out_when_something_else_follows() -> None:
    detokenizer = Detokenizer([b"a</e", b"x"].__getitem__, ["</end>"])
    assert [detokenizer.push(0), detokenizer.push(1)] == ["a", "</ex"]


def test_the_beginning_of_a_stop_string_comes_out_at_the_end() -> None:
    assert run([b"a</en"], ["</end>"]) == ["a", "</en"]


def test_an_unfinished_character_at_the_end_becomes_one_replacement_character() -> None:
    assert run(["é".encode()[:1]]) == ["", "\ufffd"]


def test_stop_strings_in_the_first_min_tokens_do_not_count() -> None:
    assert run([b"xx", b"a", b"xx", b"b"], ["xx"], min_tokens=2) == ["xx", "a", ""]


def test_tokens_are_counted_up_to_the_one_that_completes_the_stop_string() -> None:
    tokens = [b"a", b"b", b"c", b"d"]
    detokenizer = Detokenizer(tokens.__getitem__, ["bc"])
    for index in range(3):
        detokenizer.push(index)
    assert detokenizer.stopped
    assert detokenizer.num_tokens == 3
