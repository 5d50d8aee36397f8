"""Names and texts of people: what can be read is taken in every script, what steers or hides is not."""

from __future__ import annotations

import pytest

from runners.plain_text import MOST_MARKS, is_name, is_text


@pytest.mark.parametrize("name", ["chat, bf16", "Größe 8", "模型", "नमस्ते", "e\u0301tude", "<b>bold</b>", "=1+1", "🙂"])
def test_what_can_be_read_is_a_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    ["a\u202egpj.exe", "a\u200bb", "a\u2066b", "a\ufeffb", "a\nb", "a\x07b", "a\x00b", "a\ud800b", "a\u2028b", "   ",
     "e" + "\u0301" * (MOST_MARKS + 1)],
    ids=ascii,
)  # fmt: skip
def test_what_hides_steers_or_piles_up_is_no_name(name: str) -> None:
    assert not is_name(name)


def test_a_text_may_have_lines_and_joiners_but_nothing_that_turns_it() -> None:
    assert is_text("")
    assert is_text("first\n\tsecond\r\n")
    assert is_text("می\u200cخواهم")
    assert not is_text("safe \u202e evil")
    assert not is_text("a\u200bb")
    assert not is_text("e" + "\u0301" * 1000)
