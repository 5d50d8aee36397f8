"""From windows to a text's figures, and where the windows lie."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.quality.summary import WindowScore, summarize_text
from runners.quality.windows import TextTooShort, cut_windows


def window(nll: float, reference: float, kl: float = 0.0, top: float = 1.0, text_bytes: int = 40) -> WindowScore:
    return WindowScore(nll, reference, kl, top, scored_tokens=10, scored_bytes=text_bytes)


def test_perplexity_is_the_exponential_of_the_mean_and_its_ratio_that_of_the_difference() -> None:
    found = summarize_text([window(2.0, 1.9), window(3.0, 2.9)])
    assert found.perplexity.value == pytest.approx(math.exp(2.5))
    assert found.perplexity_ratio.value == pytest.approx(math.exp(0.1))
    # Both windows differ by the same: the ratio is known exactly, the perplexity hardly at all.
    assert found.perplexity_ratio.low == pytest.approx(found.perplexity_ratio.high)
    assert found.perplexity.low is not None and found.perplexity.low < math.exp(0)


def test_the_interval_over_windows_is_students() -> None:
    # mean 2, s = 1, n = 3: 2 ± 4.302653 / √3
    found = summarize_text([window(1.0, 1.0, kl=1.0), window(2.0, 2.0, kl=2.0), window(3.0, 3.0, kl=3.0)])
    kl = found.kl_divergence
    assert (kl.value, kl.low, kl.high) == (2.0, 0.0, pytest.approx(2 + 4.302653 / math.sqrt(3), rel=1e-6))


def test_bits_per_byte_divide_all_bits_by_all_bytes() -> None:
    found = summarize_text([window(math.log(2), 0.0, text_bytes=10), window(math.log(4), 0.0, text_bytes=30)])
    assert found.bits_per_byte.value == pytest.approx((10 + 20) / 40)


def test_one_window_has_no_interval() -> None:
    found = summarize_text([window(1.0, 1.0)])
    assert found.perplexity.low is None and found.bits_per_byte.high is None


@given(st.integers(32, 200), st.integers(2, 6), st.integers(0, 300))
def test_windows_do_not_overlap_and_score_their_second_halves(length: int, count: int, more: int) -> None:
    text = list(range(length * count + more))
    windows = cut_windows(text, count, length)
    assert len(windows) == count and windows[0].start == 0 and windows[-1].start == len(text) - length
    assert all(after.start - before.start >= length for before, after in pairwise(windows))
    assert all(one.targets == one.token_ids[length // 2 :] and len(one.token_ids) == length for one in windows)


def test_every_window_begins_with_what_the_model_wants_in_front() -> None:
    one, other = cut_windows(list(range(100, 200)), 2, 40, first_ids=[7])
    assert one.token_ids[:2] == (7, 100) and other.token_ids[0] == 7 and len(other.token_ids) == 40


def test_a_text_that_is_too_short_says_how_many_windows_fit() -> None:
    with pytest.raises(TextTooShort, match="allowed: at most 3"):
        cut_windows(list(range(100)), 4, 32)
