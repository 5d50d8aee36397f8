"""A meter says how much its chips draw."""

from __future__ import annotations

from typing import Literal, Protocol

Source = Literal["nvml", "amdsmi", "rapl"]


class Meter(Protocol):
    """`covers` says in words what is metered."""

    @property
    def source(self) -> Source: ...

    @property
    def covers(self) -> str: ...

    def read(self) -> float | None:
        """Watts: the mean since the last call where the chip counts energy, else of this moment. None on the first call
        of a counter, or where the chip does not answer now."""
        ...


class NoMeter(Exception):
    """This machine has no meter of the kind, or does not let us read it; says why."""
