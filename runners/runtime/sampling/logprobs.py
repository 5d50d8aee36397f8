"""Log probabilities of tokens as the model gives them: before bias, penalties, bans, temperature and cuts."""

from __future__ import annotations

import torch

from runners.runtime.sampling.sampler import largest
from runners.runtime.sequence import TokenLogprob, TokenLogprobs


def token_logprobs(logits: torch.Tensor, token_id: int, num_top: int) -> TokenLogprobs:
    """Of one row of logits (vocab_size,): the token, and the `num_top` most likely ones.

    Equal logits rank by id, lowest first, as greedy decoding takes them; so its token always has rank 1.
    """
    logprobs = torch.log_softmax(logits.to(torch.float32), dim=-1)
    chosen = logprobs[token_id]
    before = int((logprobs > chosen).sum()) + int((logprobs[:token_id] == chosen).sum())
    return TokenLogprobs(TokenLogprob(token_id, float(chosen), before + 1), _top(logprobs, num_top))


def _top(logprobs: torch.Tensor, count: int) -> tuple[TokenLogprob, ...]:
    if not count:
        return ()
    values, ids = largest(logprobs, min(count, logprobs.numel()))
    ranked = enumerate(zip(ids.tolist(), values.tolist(), strict=True), start=1)
    return tuple(TokenLogprob(token_id, value, rank) for rank, (token_id, value) in ranked)
