"""Likelihoods, KL divergence and top-1 agreement against cases worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from runners.quality.divergence import compare_logits, negative_log_likelihood

HALF = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
SKEWED = torch.log(torch.tensor([[0.25, 0.5, 0.25]]))
FIRST = torch.tensor([0])


def test_a_token_of_probability_a_quarter_costs_ln_4() -> None:
    assert float(negative_log_likelihood(SKEWED, FIRST)) == pytest.approx(math.log(4))


def test_kl_of_a_swapped_distribution_is_the_sum_over_the_vocabulary() -> None:
    # 0.5 · ln(0.5 / 0.25) + 0.25 · ln(0.25 / 0.5) + 0
    scores = compare_logits(SKEWED, HALF, FIRST)
    assert float(scores.kl) == pytest.approx(0.25 * math.log(2))
    assert (float(scores.nll), float(scores.reference_nll)) == (pytest.approx(math.log(4)), pytest.approx(math.log(2)))
    assert not bool(scores.same_top)


def test_kl_is_of_the_reference_from_the_model_and_not_the_other_way() -> None:
    sure = torch.log(torch.tensor([[0.98, 0.01, 0.01]]))
    forward, backward = compare_logits(HALF, sure, FIRST), compare_logits(sure, HALF, FIRST)
    by_hand = 0.98 * math.log(0.98 / 0.5) + 2 * 0.01 * math.log(0.01 / 0.25)
    assert float(forward.kl) == pytest.approx(by_hand, rel=1e-5)
    assert float(backward.kl) != pytest.approx(by_hand, rel=0.1)


def test_logits_shifted_by_a_constant_say_the_same() -> None:
    scores = compare_logits(HALF + 30, HALF, FIRST)
    assert float(scores.kl) == pytest.approx(0, abs=1e-6) and bool(scores.same_top)


def test_a_token_that_the_reference_rules_out_adds_nothing() -> None:
    reference = torch.tensor([[0.0, 0.0, float("-inf")]])
    assert float(compare_logits(HALF, reference, FIRST).kl) == pytest.approx(
        0.5 * math.log(0.5 / 0.5) + 0.5 * math.log(0.5 / 0.25)
    )
