"""When an open loop sends: seconds since its start, whatever the server does.

A closed loop has no schedule (a user sends when its last request has ended), so it is not here; a rate that changes is
in `runners.load.stages`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from runners.spec import OpenArrival

CHUNK = 256


def gaps(rate: float, burstiness: float, rng: np.random.Generator) -> Iterator[float]:
    """Endless independent gamma gaps of mean 1/`rate` and coefficient of variation 1/sqrt(`burstiness`): shape
    `burstiness`, scale 1/(`rate` * `burstiness`). With `burstiness` 1 they are exponential."""
    scale = 1.0 / (rate * burstiness)
    while True:
        yield from rng.gamma(burstiness, scale, CHUNK).tolist()


def arrival_times(arrival: OpenArrival, rng: np.random.Generator) -> Iterator[float]:
    """Endless rising times in seconds; with `burstiness` 1 a Poisson process."""
    return accumulate(gaps(arrival.request_rate, arrival.burstiness, rng))
