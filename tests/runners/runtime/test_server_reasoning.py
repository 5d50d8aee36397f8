"""A thought is split from the answer, in whatever pieces the text arrives."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.runtime.serving.markers import held_len, split_at
from runners.runtime.serving.reasoning import ReasoningSplitter

# text, whether the prompt opened the thought → thought, answer
CASES = [
    ("<think>\nso\n</think>\n\nYes", False, "so", "Yes"),
    ("\n<think>so</think>Yes\n\nNo\n", False, "so", "Yes\n\nNo\n"),
    ("so\n\nand so\n</think>\nYes", True, "so\n\nand so", "Yes"),
    ("<think>so</think>Yes", True, "so", "Yes"),
    ("Yes <think>no thought</think>", False, "", "Yes <think>no thought</think>"),
    ("<think>cut off\n", False, "cut off", ""),
    ("<think></think>Yes", False, "", "Yes"),
    ("<thin", False, "", "<thin"),
    ("<thin", True, "<thin", ""),
    ("  Yes", False, "", "  Yes"),
    ("", False, "", ""),
    ("a < b </thin", True, "a < b </thin", ""),
]


def split(pieces: list[str], opened: bool) -> tuple[str, str]:
    splitter = ReasoningSplitter(opened=opened)
    parts = [*map(splitter.push, pieces), splitter.finish()]
    return "".join(thought for thought, _ in parts), "".join(answer for _, answer in parts)


@pytest.mark.parametrize(("text", "opened", "thought", "answer"), CASES)
def test_a_thought_at_the_start_is_told_from_the_answer(text: str, opened: bool, thought: str, answer: str) -> None:
    assert split([text], opened) == (thought, answer)
    assert split(list(text), opened) == (thought, answer)


TEXTS = st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "think>", "\n", " ", "a"]), max_size=8).map("".join)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.booleans(), st.lists(st.integers(0, 40), max_size=4))
def test_pieces_never_change_the_result(text: str, opened: bool, cuts: list[int]) -> None:
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(ends)]
    assert split(pieces, opened) == split([text], opened)


def test_no_more_than_the_beginning_of_a_mark_is_held_back() -> None:
    assert held_len("a<th", "<think>") == 3
    assert held_len("a<think>", "<think>") == 0
    assert split_at("a<thx", "<think>") == ("a<thx", "", False)
    assert split_at("a<think>b", "<think>") == ("a", "b", True)
