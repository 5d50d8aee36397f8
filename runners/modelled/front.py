"""What a server does outside of steps, from the records of a measured run: it reads requests one at a time.

Requests that are sent at one moment reach the engine one after another, so that an engine without work begins with the
first of them, and the others wait for its step. What happens after a step (a token's way to the client) is counted with
the reading. A modelled system takes it as the intake of its engines (fleet.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runners.events import RequestRecord

UNDISTURBED = 0.05
"""Quantile of times from sending to queueing that no step in progress lengthens."""


def intake_of(records: Sequence[RequestRecord]) -> float:
    """Seconds of a request outside of steps, of a measured run: from its sending until it is queued, where no step held
    that up, and from the end of its prefill until its first token arrives. 0 without a request that tells."""
    before = [r.queued_s - r.sent_s for r in records if r.queued_s is not None]
    after = [
        r.first_token_s - r.prefill_done_s
        for r in records
        if r.first_token_s is not None and r.prefill_done_s is not None
    ]
    if not before or not after:
        return 0.0
    return max(float(np.quantile(before, UNDISTURBED) + np.median(after)), 0.0)
