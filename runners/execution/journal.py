"""What a run says, in order: every event goes to the spool. Log lines are bounded, so that none can drown the rest."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal

from runners.events import AnyEvent, Log, Report, Status
from runners.spool import SpoolFull, SpoolWriter

MAX_LOG_LINES = 500
MAX_LINE_CHARACTERS = 2000

Phase = Literal["fetching", "starting", "warming_up", "measuring", "draining", "done"]
Level = Literal["debug", "info", "warning", "error"]


class Journal:
    """The one writer of a run's spool while its process lives. For one thread."""

    def __init__(self, writer: SpoolWriter) -> None:
        self._writer = writer
        self._log_lines = 0

    def add(self, *events: AnyEvent) -> None:
        self._writer.append(events)

    def add_all(self, events: Iterable[AnyEvent]) -> None:
        self._writer.append(events)

    def status(self, phase: Phase, t_s: float | None = None, detail: str = "") -> None:
        self.add(Status(phase=phase, t_s=t_s, wall_s=time.time(), detail=detail))

    def log(self, level: Level, source: str, message: str) -> None:
        """A line, cut to MAX_LINE_CHARACTERS; past MAX_LOG_LINES only their number is kept."""
        self._log_lines += 1
        if self._log_lines <= MAX_LOG_LINES:
            text = message[:MAX_LINE_CHARACTERS]
            self.add(Log(wall_s=time.time(), level=level, source=source, message=text))

    def close_with(self, report: Report) -> None:
        """The last event. Before it the log says how many lines were left out and what ended the run, where the disk
        has room for that."""
        left_out = self._log_lines - MAX_LOG_LINES
        if left_out > 0:
            self._say_last("warning", f"{left_out} more lines were left out")
        if report.error:
            self._say_last("error", report.error[:MAX_LINE_CHARACTERS])
        self._writer.close_with(report)

    def _say_last(self, level: Level, text: str) -> None:
        with suppress(SpoolFull):
            self.add(Log(wall_s=time.time(), level=level, source="execute", message=text))
