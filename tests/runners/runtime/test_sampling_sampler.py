"""Greedy and seeded sampling: what is drawn, from what, and what it depends on."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_share import share_of
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from runners.runtime.sampling.sampler import FIRST_CANDIDATES, sample, uniform
from runners.runtime.sequence import SamplingParams


def random_logits(rows: int, vocab: int = 50) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(rows)) * 3


def draw(logits: torch.Tensor, params: list[SamplingParams], indices: list[int] | None = None) -> list[int]:
    return sample(logits, [share_of(*pair) for pair in zip(params, indices or [0] * len(params), strict=True)])


def draw_many(logits: torch.Tensor, params: SamplingParams, count: int) -> Counter[int]:
    return Counter(draw(logits.expand(count, -1), [params] * count, list(range(count))))


def test_greedy_takes_the_largest_and_the_lowest_id_among_equals() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0], [5.0, 2.0, 5.0, 1.0]])
    assert draw(logits, [SamplingParams()] * 2) == [1, 0]


@given(st.integers(0, 2**64 - 1), st.integers(0, 10_000))
def test_a_random_number_lies_in_the_unit_interval_and_is_fixed(seed: int, index: int) -> None:
    number = uniform(seed, index)
    assert 0.0 <= number < 1.0
    assert number == uniform(seed, index)


def test_random_numbers_are_spread_evenly_over_indices_and_over_seeds() -> None:
    for numbers in ([uniform(1, i) for i in range(4000)], [uniform(s, 0) for s in range(4000)]):
        counts = Counter(int(number * 10) for number in numbers)
        assert all(340 < counts[tenth] < 460 for tenth in range(10))


@given(st.integers(0, 2**32), st.integers(0, 50), st.integers(1, 6), st.integers(0, 5))
def test_a_sampled_token_does_not_depend_on_the_batch(seed: int, index: int, rows: int, at: int) -> None:
    logits = random_logits(6)
    params = SamplingParams(temperature=0.9, top_k=20, top_p=0.9, min_p=0.01, seed=seed)
    alone = draw(logits[at : at + 1], [params], [index])
    others = [SamplingParams(temperature=1.3, seed=seed + 1)] * (rows - 1)
    batch = torch.cat((logits[: rows - 1], logits[at : at + 1]))
    assert draw(batch, [*others, params], [0] * (rows - 1) + [index])[-1:] == alone


def test_draws_follow_the_softmax_at_the_temperature() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0])
    expected = torch.softmax(logits / 0.7, dim=0)
    counts = draw_many(logits, SamplingParams(temperature=0.7, seed=5), 3000)
    for token, share in enumerate(expected.tolist()):
        assert counts[token] / 3000 == pytest.approx(share, abs=0.03)


@given(st.integers(1, 60))
def test_top_k_draws_from_the_k_largest(top_k: int) -> None:
    logits = random_logits(1)[0]
    allowed = set(logits.topk(min(top_k, 50)).indices.tolist())
    assert set(draw_many(logits, SamplingParams(temperature=5.0, top_k=top_k, seed=1), 100)) <= allowed


def test_top_k_among_equals_keeps_the_lowest_ids() -> None:
    drawn = draw_many(torch.zeros(50), SamplingParams(temperature=1.0, top_k=3, seed=2), 200)
    assert set(drawn) == {0, 1, 2}


@given(st.floats(0.01, 1.0))
def test_top_p_draws_from_the_smallest_set_that_reaches_p(top_p: float) -> None:
    logits = random_logits(1)[0].double()
    probabilities, ids = torch.softmax(logits, dim=0).sort(descending=True)
    size = int((probabilities.cumsum(0) < top_p).sum()) + 1
    drawn = draw_many(logits.float(), SamplingParams(temperature=1.0, top_p=top_p, seed=3), 100)
    assert set(drawn) <= set(ids[: size + 1].tolist())


def test_a_tiny_top_p_is_greedy() -> None:
    logits = random_logits(4)
    params = SamplingParams(temperature=1.0, top_p=1e-6, seed=9)
    assert draw(logits, [params] * 4, [0, 1, 2, 3]) == logits.argmax(dim=-1).tolist()


@pytest.mark.parametrize("temperature", [1e-6, 1e-300, 5e-324])
def test_no_temperature_is_too_low(temperature: float) -> None:
    logits = random_logits(4)
    params = [SamplingParams(temperature=temperature, seed=1)] * 4
    assert draw(logits, params) == logits.argmax(dim=-1).tolist()


def kept_by_transformers(logits: torch.Tensor, *warpers: object) -> set[int]:
    scores = logits.unsqueeze(0)
    for warper in warpers:
        scores = warper(torch.zeros(1, 1, dtype=torch.int64), scores)  # type: ignore[operator]
    return set(scores[0].isfinite().nonzero().flatten().tolist())


def drawn_at(logits: torch.Tensor, params: SamplingParams, count: int = 1500) -> set[int]:
    """All tokens that are drawn at all: the temperature and the numbers cover even unlikely ones."""
    return set(draw_many(logits, params, count))


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1000),
    temperature=st.floats(0.5, 3.0),
    min_p=st.sampled_from([0.02, 0.1, 0.5, 1.0]),
)
def test_min_p_keeps_what_transformers_keeps(seed: int, temperature: float, min_p: float) -> None:
    logits = torch.randn(20, generator=torch.Generator().manual_seed(seed))
    expected = kept_by_transformers(logits, TemperatureLogitsWarper(temperature), MinPLogitsWarper(min_p))
    assert drawn_at(logits, SamplingParams(temperature=temperature, min_p=min_p, seed=seed)) == expected


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), top_k=st.integers(1, 20), top_p=st.sampled_from([0.3, 0.7, 0.95]))
def test_top_k_and_top_p_keep_what_transformers_keeps(seed: int, top_k: int, top_p: float) -> None:
    logits = torch.randn(20, generator=torch.Generator().manual_seed(seed))
    expected = kept_by_transformers(logits, TopKLogitsWarper(top_k), TopPLogitsWarper(top_p))
    assert drawn_at(logits, SamplingParams(temperature=1.0, top_k=top_k, top_p=top_p, seed=seed)) == expected


def test_top_p_shares_out_what_min_p_leaves() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    params = SamplingParams(temperature=1.0, min_p=0.5, top_p=0.6, seed=1)
    # Of 0.5 and 0.3 the first has 0.625 of the mass; of all four it would have too little.
    assert drawn_at(logits, params, 200) == {0}


@pytest.mark.parametrize("spread", [0.1, 3.0], ids=["flat", "peaked"])
def test_top_p_keeps_the_same_of_a_large_vocabulary_however_many_tokens_it_takes(spread: float) -> None:
    logits = torch.randn(5000, generator=torch.Generator().manual_seed(1)) * spread
    probabilities, ids = torch.softmax(logits.double(), dim=0).sort(descending=True)
    kept = int((probabilities.cumsum(0) < 0.9).sum()) + 1
    assert (kept > FIRST_CANDIDATES) == (spread < 1.0)
    rank_of = {token: rank for rank, token in enumerate(ids.tolist())}
    drawn = draw_many(logits, SamplingParams(temperature=1.0, top_p=0.9, seed=3), 300)
    ranks = [rank_of[token] for token in drawn]
    assert 0.5 * kept < max(ranks) <= kept
    assert min(ranks) < 0.2 * kept


def test_a_banned_token_is_never_drawn_whatever_the_number() -> None:
    logits = torch.full((10,), -torch.inf)
    logits[[2, 5]] = 1.0
    assert set(draw_many(logits, SamplingParams(temperature=3.0, seed=1), 300)) == {2, 5}


def test_rows_without_parameters_of_their_own_keep_their_logits() -> None:
    logits = random_logits(3)
    before = logits.clone()
    draw(logits, [SamplingParams(), SamplingParams(logit_bias=((0, 5.0),)), SamplingParams(temperature=1.0)])
    assert torch.equal(logits[0], before[0])
    assert torch.equal(logits[2], before[2])
    assert not torch.equal(logits[1], before[1])
