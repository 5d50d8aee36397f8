"""Which engine of several alike gets a request. Pure: looks at the engines, changes none.

Ties go to the engine that comes first, so that the same run is routed the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from runners.spec import RouterSpec


class Candidate(Protocol):
    """An engine as a router sees it."""

    @property
    def num_tokens_to_do(self) -> int: ...

    def count_prefix(self, prompt_ids: tuple[int, ...]) -> int: ...


C = TypeVar("C", bound=Candidate)


class Router:
    """Chooses among the engines of one pool."""

    def __init__(self, spec: RouterSpec) -> None:
        self._spec = spec
        self._turn = 0

    @property
    def looks(self) -> bool:
        """Whether it must know how the engines stand."""
        return self._spec.policy != "round_robin"

    def choose(self, engines: Sequence[C], prompt_ids: tuple[int, ...]) -> C:
        if self._spec.policy == "round_robin":
            self._turn += 1
            return engines[(self._turn - 1) % len(engines)]
        if self._spec.policy == "least_loaded":
            return min(engines, key=lambda engine: engine.num_tokens_to_do)
        return min(engines, key=lambda engine: self._cost(engine, prompt_ids))

    def _cost(self, engine: Candidate, prompt_ids: tuple[int, ...]) -> float:
        """What the request would add to the engine's prefill, and what that has to do already (as the KV router of
        NVIDIA Dynamo weighs both, there in blocks)."""
        uncached = len(prompt_ids) - engine.count_prefix(prompt_ids)
        return self._spec.overlap_weight * uncached + engine.num_tokens_to_do
