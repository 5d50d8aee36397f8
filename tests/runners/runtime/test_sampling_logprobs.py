"""Logprobs against log_softmax, and the order among equals."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.runtime.sampling.logprobs import token_logprobs


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 99), token=st.integers(0, 39), num_top=st.integers(0, 20))
def test_logprobs_are_those_of_log_softmax(seed: int, token: int, num_top: int) -> None:
    logits = torch.randn(40, generator=torch.Generator().manual_seed(seed)) * 5
    expected = torch.log_softmax(logits.double(), dim=-1)
    told = token_logprobs(logits, token, num_top)
    assert told.chosen.token_id == token
    assert told.chosen.logprob == pytest.approx(float(expected[token]), abs=1e-5)
    assert told.chosen.rank == int((expected > expected[token]).sum()) + 1
    values, ids = expected.topk(num_top)
    assert [top.token_id for top in told.top] == ids.tolist()
    assert [top.logprob for top in told.top] == pytest.approx(values.tolist(), abs=1e-5)
    assert [top.rank for top in told.top] == list(range(1, num_top + 1))


def test_equal_logits_rank_by_id() -> None:
    told = token_logprobs(torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0]), 2, 2)
    assert told.chosen.rank == 2
    assert [top.token_id for top in told.top] == [1, 2]


def test_more_than_the_vocabulary_is_the_whole_vocabulary() -> None:
    assert len(token_logprobs(torch.zeros(3), 0, 20).top) == 3
