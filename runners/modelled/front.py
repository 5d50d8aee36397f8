"""What a server does outside of steps: what published first tokens tell of engines, and a measured run of its own.

The lab's server reads requests one at a time. Those that are sent at one moment reach the engine one after another, so
that an engine without work begins with the first of them, and the others wait for its step: its `intake`. Published
engines read many at once, each as late as the calibration found. What happens after a step (a token's way to the
client) is counted with the reading.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runners.events import RequestRecord
from runners.modelled.calibration_file import own_calibration
from runners.modelled.coefficients import FIRST_TOKEN, RunSetting, values_of
from runners.modelled.profiles import FITTED

UNDISTURBED = 0.05
"""Quantile of times from sending to queueing that no step in progress lengthens."""


def reading_s(profile: str, *, disaggregated: bool) -> float:
    """Seconds of a request outside of steps under an engine profile; 0 for one that no result was fitted on."""
    if profile not in FITTED:
        return 0.0
    setting = RunSetting(profile, "disaggregated" if disaggregated else "closed loop")
    return values_of(setting, own_calibration().first_token, FIRST_TOKEN)["fixed"]


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
