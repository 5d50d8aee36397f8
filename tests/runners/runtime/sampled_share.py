"""A sequence's share of a step as the sampler sees it, without blocks."""

from __future__ import annotations

from collections.abc import Iterable

from runners.runtime.executor import ScheduledSequence
from runners.runtime.sampling.structure import Allowed
from runners.runtime.sequence import PastTokens, SamplingParams


def share_of(
    params: SamplingParams,
    index: int = 0,
    *,
    prompt: Iterable[int] = (1,),
    output: Iterable[int] = (),
    allowed: Allowed | None = None,
) -> ScheduledSequence:
    """One that draws output token number `index`, or the one after `output`."""
    past = PastTokens(tuple(prompt), tuple(output))
    return ScheduledSequence(
        "a", (1,), 0, (0,), True, params, index or len(past.output_ids), past if params.looks_back else None, allowed
    )
