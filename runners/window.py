"""The measured window of a run: what lies in it is what its figures rest on."""

from __future__ import annotations

from runners.events import Report, Step

Window = tuple[float, float]
"""Start and end, in seconds on the run's clock."""


def window_of(report: Report) -> Window | None:
    """None where the run never began to measure, or measured no time at all."""
    start, end = report.window_start_s, report.window_end_s
    return (start, end) if start is not None and end is not None and end > start else None


def length_s(report: Report) -> float | None:
    window = window_of(report)
    return None if window is None else window[1] - window[0]


def begins_in(step: Step, window: Window | None) -> bool:
    """Whether the step counts as one of the window's: it began in it."""
    return window is not None and window[0] <= step.start_s < window[1]
