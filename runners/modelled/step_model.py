"""What a step costs, as values that every cost model gives: of one chip, of many, of two kinds, with drafts.

Nothing here knows a chip or a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol

from runners.events import Bound
from runners.modelled.shape import ModelShape


class CostModelError(ValueError):
    """The chip or the model can't be modelled as asked; trying again would change nothing.

    `field` is the path of the document that is at fault.
    """

    retry = False

    def __init__(self, message: str, *, field: str = "chip", allowed: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.message}; allowed: {self.allowed}" if self.allowed else self.message


class Share(Protocol):
    """What a step computes of one sequence: tokens at positions `start …`, sampled after the last or not. Drafts that
    follow them concern a cost model with a drafter alone."""

    @property
    def start(self) -> int: ...
    @property
    def token_ids(self) -> Sized: ...
    @property
    def sample(self) -> bool: ...
    @property
    def num_draft_tokens(self) -> int: ...


@dataclass(slots=True)
class StepParts:
    """Seconds of a step by what they were spent on; they add up to its duration. A kernel's time counts as compute or
    as bandwidth, whichever it needs more of."""

    compute_s: float
    bandwidth_s: float
    link_s: float
    overhead_s: float

    @property
    def total_s(self) -> float:
        return self.compute_s + self.bandwidth_s + self.link_s + self.overhead_s

    @property
    def bound(self) -> Bound:
        """What took most of it."""
        longest = max(self.compute_s, self.bandwidth_s, self.link_s, self.overhead_s)
        if longest == self.bandwidth_s:
            return "bandwidth"
        if longest == self.compute_s:
            return "compute"
        return "link" if longest == self.link_s else "overhead"

    def plus(self, other: StepParts) -> StepParts:
        return StepParts(
            self.compute_s + other.compute_s,
            self.bandwidth_s + other.bandwidth_s,
            self.link_s + other.link_s,
            self.overhead_s + other.overhead_s,
        )

    def times(self, factor: float) -> StepParts:
        return StepParts(
            self.compute_s * factor, self.bandwidth_s * factor, self.link_s * factor, self.overhead_s * factor
        )


@dataclass(slots=True)
class StepCost:
    """What a step must compute and move, in all on all its chips, and how long it takes.

    `compute_s` and `memory_s` are the times of both at the chips' peaks, the greater of which no step beats; `parts`
    are the step's own seconds by what bound them.
    `energy_j` is of all the engine's chips, null where their power is not stated. A value that nobody changes; it is
    not frozen because one is made per step, and that takes twice as long for a frozen one.
    """

    linear_flops: int
    attention_flops: int
    weight_bytes: int
    kv_bytes: int
    compute_s: float
    memory_s: float
    duration_s: float
    parts: StepParts
    energy_j: float | None = None

    @property
    def roofline_s(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def bound(self) -> Bound:
        return self.parts.bound

    @property
    def link_s(self) -> float:
        return self.parts.link_s


@dataclass(frozen=True, slots=True)
class DecodeSums:
    """A batch in which every sequence decodes one token: how many, and the keys that they attend to in a layer that
    sees all of the context, and in one with a sliding window."""

    sequences: int
    keys: int
    window_keys: int

    @classmethod
    def each(cls, starts: Sequence[int], window: int) -> Iterator[DecodeSums]:
        """Of a batch in which sequence i decodes its token at position `starts[i]`, then of the steps after it, each
        one token longer, without end. `window` is 0 where no layer has one."""
        number, keys = len(starts), sum(starts) + len(starts)
        lacking = sorted((window - start - 1 for start in starts if start + 1 < window), reverse=True)
        window_keys = sum(min(start + 1, window) for start in starts)
        steps = 0
        while True:
            yield cls(number, keys, window_keys)
            keys += number
            window_keys += len(lacking)
            steps += 1
            while lacking and lacking[-1] <= steps:
                lacking.pop()


class StepModel(Protocol):
    """The cost of any step of one engine, whatever it is made of. `decode_step` gives what `step` does, to the bit.

    `flops_per_s` and `bytes_per_s` are the peaks of all the engine's chips together; `idle_w` what they draw when no
    step runs, null where unknown.
    """

    @property
    def shape(self) -> ModelShape: ...
    @property
    def weights(self) -> str: ...
    @property
    def native(self) -> bool: ...
    @property
    def chip_ids(self) -> tuple[str, ...]: ...
    @property
    def chips_by_id(self) -> Mapping[str, int]: ...
    @property
    def chips(self) -> int: ...
    @property
    def flops_per_s(self) -> float: ...
    @property
    def bytes_per_s(self) -> float: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def idle_w(self) -> float | None: ...

    def step(self, batch: Iterable[Share]) -> StepCost: ...

    def decode_step(self, sums: DecodeSums) -> StepCost: ...

    def facts(self) -> dict[str, Any]: ...
