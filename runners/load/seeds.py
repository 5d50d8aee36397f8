"""One seed, many independent streams of random numbers: what a run draws depends on its seed alone.

Each request draws from a stream of its own, so that its prompt and lengths do not depend on which requests came
before it, nor on how fast they were answered.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What is drawn. A number is never given to another purpose: it would change all recorded runs."""

    ARRIVALS = 1
    INPUT_LEN = 2
    OUTPUT_LEN = 3
    PROMPT = 4
    SAMPLING = 5
    WARMUP_ARRIVALS = 6
    TEXT_ORDER = 7
    PREFIX_GROUP = 8
    PREFIX = 9
    PREFIX_ORDER = 10
    PREFIX_SHARE = 11
    TRAFFIC_CLASS = 12
    TURNS = 13
    PAUSE = 14
    TOOL_RESULT = 15
    THINKING = 16
    UNKNOWN_ANSWER = 17


def random_stream(seed: int, stream: Stream, index: int = 0) -> np.random.Generator:
    """The generator of one purpose, and of one request where `index` is its number."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, int(stream), index))))
