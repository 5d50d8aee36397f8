"""A row of a trace: one request, when it came and how long it was. And what may be in it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TOKENS = 4_194_304
MAX_ROWS = 1_000_000
MAX_PREFIX_IDS = 262_144
MAX_SESSION = 100
MAX_CLASS = 50
MAX_TURN = 1_000_000
LONGEST_TRACE_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request. `timestamp_s` counts from the trace's first row; where the trace has no times, all are 0.

    Each of `prefix_ids` stands for one block of the prompt, from its beginning: equal ids, equal tokens. Without them,
    the prompts of a `session` begin alike, as far as the shorter one goes.
    """

    timestamp_s: float
    input_tokens: int
    output_tokens: int
    prefix_ids: tuple[int, ...] = ()
    session: str | None = None
    turn: int | None = None
    traffic_class: str | None = None


@dataclass(frozen=True, slots=True)
class BadLine:
    """What was wrong with a line (from 1). It gave no row."""

    line: int
    message: str

    def as_text(self) -> str:
        return f"line {self.line}: {self.message}"


class TraceError(Exception):
    """A trace can't be taken. Trying the same bytes again would change nothing."""

    retry = False


class BadLines(TraceError):
    """Lines that can't be taken: the first of them, and how many there were until reading was given up."""

    def __init__(self, lines: list[BadLine], count: int) -> None:
        self.lines = lines
        self.count = count
        told = "; ".join(line.as_text() for line in lines)
        super().__init__(told + (f"; and {count - len(lines)} more" if count > len(lines) else ""))


class LineFault(ValueError):
    """Inside a reader: this line gives no row, because of this."""
