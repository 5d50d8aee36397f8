"""When an open loop sends: seconds since its start, whatever the server does.

A closed loop has no schedule (a user sends when its last request has ended), so it is not here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from runners.spec import OpenArrival

CHUNK = 256


def arrival_times(arrival: OpenArrival, rng: np.random.Generator) -> Iterator[float]:
    """Endless rising times in seconds with independent gamma gaps.

    The gaps have mean 1/`request_rate` and coefficient of variation 1/sqrt(`burstiness`): shape `burstiness`,
    scale 1/(`request_rate` * `burstiness`). With `burstiness` 1 they are exponential: a Poisson process.
    """
    scale = 1.0 / (arrival.request_rate * arrival.burstiness)
    now = 0.0
    while True:
        for gap in rng.gamma(arrival.burstiness, scale, CHUNK):
            now += float(gap)
            yield now
