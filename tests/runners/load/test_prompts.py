"""Prompts: exact lengths, the same for the same seed, and no block shared by accident."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.load.prompts import SMALLEST_BLOCK, PromptSource, SyntheticPrompts, TextPrompts
from runners.load.text import shipped_text

ALLOWED = np.arange(10, 5000)
# A text in which every sentence comes twice, as refrains do.
TEXT = [*range(100, 400), *range(100, 250), *range(400, 700)]
FRESH_PLACES = len({tuple(TEXT[i : i + SMALLEST_BLOCK]) for i in range(len(TEXT) - SMALLEST_BLOCK + 1)})


def synthetic(seed: int) -> PromptSource:
    return SyntheticPrompts(seed, ALLOWED)


def text(seed: int) -> PromptSource:
    return TextPrompts(seed, TEXT, ALLOWED)


both = pytest.mark.parametrize("source", [synthetic, text])


@both
@given(seed=st.integers(0, 2**63 - 1), number=st.integers(0, 10**6), length=st.integers(1, 3000))
def test_a_prompt_has_its_length_and_depends_on_seed_and_number_alone(source, seed, number, length) -> None:
    prompt = source(seed).prompt(number, length)
    assert len(prompt) == length
    assert prompt == source(seed).prompt(number, length)
    assert all(type(token) is int for token in prompt[:3])


@both
@settings(max_examples=15)
@given(seed=st.integers(0, 2**63 - 1))
def test_no_two_prompts_of_a_run_begin_with_the_same_block(source, seed: int) -> None:
    prompts = source(seed)
    heads = [prompts.prompt(number, 64)[:SMALLEST_BLOCK] for number in range(3 * FRESH_PLACES)]
    assert len(set(heads)) == len(heads)


@both
@settings(max_examples=15)
@given(seed=st.integers(0, 2**63 - 1))
def test_no_two_groups_have_prefixes_that_begin_with_the_same_block(source, seed: int) -> None:
    prompts = source(seed)
    heads = [prompts.prefix(group, 64)[:SMALLEST_BLOCK] for group in range(2 * FRESH_PLACES)]
    assert len(set(heads)) == len(heads)
    assert prompts.prefix(3, 64)[:20] == source(seed).prefix(3, 20)


@both
def test_another_seed_gives_other_prompts(source) -> None:
    assert [source(1).prompt(n, 32) for n in range(5)] != [source(2).prompt(n, 32) for n in range(5)]


@given(st.integers(0, 10**6))
def test_synthetic_prompts_hold_allowed_tokens_alone(number: int) -> None:
    assert set(SyntheticPrompts(0, [5, 7, 11]).prompt(number, 200)) <= {5, 7, 11}


@given(st.integers(0, FRESH_PLACES - 1), st.integers(1, 2 * len(TEXT)))
def test_a_text_prompt_is_a_slice_of_the_text_read_as_a_ring(number: int, length: int) -> None:
    prompt = text(9).prompt(number, length)
    ring = TEXT * 4
    assert any(tuple(ring[start : start + length]) == prompt for start in range(len(TEXT)))


def test_after_the_last_fresh_place_a_slice_differs_in_its_first_block_alone() -> None:
    first, again = text(9).prompt(5, 64), text(9).prompt(5 + FRESH_PLACES, 64)
    assert first[SMALLEST_BLOCK:] == again[SMALLEST_BLOCK:]
    assert first[:SMALLEST_BLOCK] != again[:SMALLEST_BLOCK]


def test_nothing_to_draw_from_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed_ids"):
        SyntheticPrompts(0, [])
    with pytest.raises(ValueError, match="text_ids"):
        TextPrompts(0, [1, 2, 3], ALLOWED)


def test_the_shipped_text_is_prose_within_its_size_and_free_of_editors_words() -> None:
    shipped = shipped_text()
    assert 100_000 < len(shipped.encode()) <= 200_000
    assert "Alice was beginning to get very tired" in shipped
    for word in ("gutenberg", "ebook", "edition", "copyright", "http"):
        assert word not in shipped.lower()
