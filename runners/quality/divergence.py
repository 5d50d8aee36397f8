"""What two models say of the same tokens: negative log-likelihoods, KL divergence over the whole vocabulary, top-1.

Probabilities are float32, as the logits are, and sums over the vocabulary float64; nothing is cut off it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Per scored token, (tokens,) each: negative log-likelihoods in nats of the model and of the reference, KL of the
    reference from the model in nats, whether both rank the same token first."""

    nll: torch.Tensor
    reference_nll: torch.Tensor
    kl: torch.Tensor
    same_top: torch.Tensor


def negative_log_likelihood(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """-ln p(target) in nats, (rows,), of logits (rows, vocab) and target ids (rows,)."""
    log_probs = torch.log_softmax(logits.to(torch.float32), dim=-1)
    return -log_probs.gather(-1, targets[:, None])[:, 0]


def compare_logits(logits: torch.Tensor, reference: torch.Tensor, targets: torch.Tensor) -> TokenScores:
    """Scores of rows of logits (rows, vocab) against the reference's. KL is Σ p_ref · (ln p_ref - ln p)."""
    ours = torch.log_softmax(logits.to(torch.float32), dim=-1)
    theirs = torch.log_softmax(reference.to(torch.float32), dim=-1)
    # Where the reference's probability is 0 its share is 0, whatever the model says.
    shares = torch.where(theirs > float("-inf"), theirs.exp() * (theirs - ours), torch.zeros_like(theirs))
    at = targets[:, None]
    return TokenScores(
        nll=-ours.gather(-1, at)[:, 0],
        reference_nll=-theirs.gather(-1, at)[:, 0],
        # Rounding may take the sum of two equal distributions below 0.
        kl=shares.sum(dim=-1, dtype=torch.float64).clamp_min(0.0),
        same_top=logits.argmax(dim=-1) == reference.argmax(dim=-1),
    )
