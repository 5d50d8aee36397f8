"""Bias, penalties and bans, held against transformers' processors or against their formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_share import share_of
from transformers import NoBadWordsLogitsProcessor, RepetitionPenaltyLogitsProcessor

from runners.runtime.sampling.logit_rules import apply_rules, has_rules
from runners.runtime.sequence import SamplingParams

VOCAB = 30
FEW = settings(max_examples=40, deadline=None)
tokens = st.lists(st.integers(0, VOCAB - 1), max_size=12).map(tuple)


def random_row(seed: int) -> torch.Tensor:
    return torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def applied(params: SamplingParams, logits: torch.Tensor, **given: object) -> torch.Tensor:
    changed = logits.clone()
    share = share_of(params, **given)  # type: ignore[arg-type]
    assert has_rules(share)
    apply_rules(changed, share)
    return changed


@FEW
@given(seed=st.integers(0, 99), prompt=tokens, output=tokens, penalty=st.sampled_from([0.5, 1.1, 2.0]))
def test_the_repetition_penalty_is_that_of_transformers(
    seed: int, prompt: tuple[int, ...], output: tuple[int, ...], penalty: float
) -> None:
    logits = random_row(seed)
    params = SamplingParams(repetition_penalty=penalty)
    ids = torch.tensor([[*prompt, *output]], dtype=torch.int64)
    expected = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.unsqueeze(0))[0]
    assert torch.equal(applied(params, logits, prompt=prompt, output=output), expected)


@FEW
@given(
    seed=st.integers(0, 99),
    output=st.lists(st.integers(0, 3), max_size=8).map(tuple),
    bad=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), min_size=1, max_size=4),
)
def test_bad_words_are_those_of_transformers_in_the_output(
    seed: int, output: tuple[int, ...], bad: list[tuple[int, ...]]
) -> None:
    logits = random_row(seed)
    ids = torch.tensor([[29, *output]])
    processor = NoBadWordsLogitsProcessor([list(word) for word in bad])
    expected = processor(ids, logits.unsqueeze(0))[0]
    assert torch.equal(applied(SamplingParams(bad_token_ids=tuple(bad)), logits, output=output), expected)


def test_a_bad_word_that_the_prompt_began_may_be_ended() -> None:
    params = SamplingParams(bad_token_ids=((3, 4),))
    logits = random_row(1)
    assert torch.equal(applied(params, logits, prompt=(3,), output=()), logits)
    assert applied(params, logits, prompt=(), output=(3,))[4] == -torch.inf


def test_frequency_and_presence_count_the_output_alone() -> None:
    params = SamplingParams(frequency_penalty=0.5, presence_penalty=-1.0)
    logits = random_row(2)
    expected = logits.clone()
    expected[7] -= 2 * 0.5 - 1.0
    expected[8] -= 1 * 0.5 - 1.0
    assert torch.allclose(applied(params, logits, prompt=(9, 9), output=(7, 8, 7)), expected)


def test_a_bias_is_added_before_the_repetition_penalty() -> None:
    params = SamplingParams(logit_bias=((5, 4.0), (6, -100.0)), repetition_penalty=2.0)
    logits = torch.ones(VOCAB)
    changed = applied(params, logits, prompt=(5,))
    assert float(changed[5]) == pytest.approx(2.5)
    assert float(changed[6]) == pytest.approx(-99.0)
    assert float(changed[0]) == 1.0


def test_stop_tokens_cannot_come_before_min_tokens() -> None:
    params = SamplingParams(max_tokens=9, min_tokens=3, stop_token_ids=(4, 5))
    changed = applied(params, random_row(3), output=(1, 2))
    assert set((~changed.isfinite()).nonzero().flatten().tolist()) == {4, 5}
    assert not has_rules(share_of(params, output=(1, 2, 3)))
    assert not has_rules(share_of(SamplingParams(min_tokens=3, stop_token_ids=(4,), ignore_eos=True)))


def test_a_structure_leaves_only_what_it_allows_and_is_stronger_than_bad_words() -> None:
    allowed = np.zeros(VOCAB, dtype=np.bool_)
    allowed[[3, 4]] = True
    free = applied(SamplingParams(), random_row(4), allowed=allowed)
    assert set(free.isfinite().nonzero().flatten().tolist()) == {3, 4}
    one = applied(SamplingParams(bad_token_ids=((3,),)), random_row(4), allowed=allowed)
    assert set(one.isfinite().nonzero().flatten().tolist()) == {4}
    none = applied(SamplingParams(bad_token_ids=((3,), (4,))), random_row(4), allowed=allowed)
    assert set(none.isfinite().nonzero().flatten().tolist()) == {3, 4}


def test_bad_words_that_are_the_whole_vocabulary_ban_nothing() -> None:
    logits = random_row(5)
    params = SamplingParams(bad_token_ids=tuple((token,) for token in range(VOCAB)))
    assert torch.equal(applied(params, logits), logits)


def test_plain_parameters_have_no_rules() -> None:
    for params in (SamplingParams(), SamplingParams(temperature=1.0, top_k=3, min_p=0.1, logprobs=3)):
        assert not has_rules(share_of(params))
