"""A long virtual run needs no more memory than a short one: nothing of a request stays when it has ended."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from virtual_systems import pools, system_spec, with_few_blocks

from runners.events import AnyEvent
from runners.load.virtual import run
from runners.modelled.fleet_build import build
from runners.modelled.topology import plan_system

MOST_GROWTH_BYTES = 200_000
"""For 1,000 requests: a trace or a sequence that stayed behind would take a kilobyte each."""


@dataclass
class MarkingSink:
    """Keeps no event; notes the memory in use when so many requests have ended."""

    marks: tuple[int, ...]
    ended: int = 0
    held_bytes: list[int] = field(default_factory=list)

    def __call__(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            if event.kind == "request":
                self.ended += 1
                if self.ended in self.marks:
                    gc.collect()
                    self.held_bytes.append(tracemalloc.get_traced_memory()[0])


@pytest.mark.parametrize("placement", [{}, pools(2, 1) | {"router": {"policy": "least_loaded"}}])
def test_memory_does_not_grow_with_the_number_of_requests(placement: dict[str, Any]) -> None:
    load = {
        "input_len": {"dist": "fixed", "tokens": 24},
        "output_len": {"dist": "uniform", "min_tokens": 1, "max_tokens": 4},
        "arrival": {"kind": "closed", "max_concurrency": 8},
        "num_requests": 1500,
    }
    spec = system_spec(placement, **load)
    system = build(with_few_blocks(plan_system(spec), spec, 64), spec.engine)
    sink = MarkingSink((500, 1500))
    tracemalloc.start()
    try:
        run(spec, system, sink, wall=lambda: 0.0)
    finally:
        tracemalloc.stop()
    early, late = sink.held_bytes
    assert late - early < MOST_GROWTH_BYTES
