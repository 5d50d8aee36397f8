"""A child process of a run that speaks lines: its stderr goes to the journal, and it never outlives its use.

Of a command that is no program of ours both outputs are its log.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from runners import processes
from runners.execution.journal import Journal, Level

LAST_LINES = 20
SHOWN_LINES = 3
TERM_GRACE_S = 2.0
POLL_S = 0.05
MAX_LINE_BYTES = 1 << 24

# What our programs and Python's logging begin a line with, and the level it stands for.
_PREFIX = re.compile(r"^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+ )?(DEBUG|INFO|WARNING|ERROR|CRITICAL|error:) ?")
_LEVELS: dict[str, Level] = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
}


class Command:
    """`async with Command(...)`: the process runs inside the block and is gone after it, however the block ends."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        journal: Journal,
        *,
        stdin: bool = False,
        speaks: bool = True,
        environment: Mapping[str, str] | None = None,
        grace_s: float = TERM_GRACE_S,
    ) -> None:
        """A command that does not speak to us has both outputs in the journal. It has `grace_s` to end by itself once
        it is asked to."""
        self.name = name
        self._command = command
        self._journal = journal
        self._stdin = asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL
        self._stderr = asyncio.subprocess.PIPE if speaks else asyncio.subprocess.STDOUT
        self._environment = environment
        self._grace_s = grace_s
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    async def __aenter__(self) -> Self:
        """Raises OSError where it can't be started."""
        self.process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=self._stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._stderr,
            limit=MAX_LINE_BYTES,
            env=processes.marked_environment(extra=self._environment),
        )
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL after a grace. Returns when it is gone and all it said on stderr is in the journal."""
        self._send(signal.SIGTERM)
        if not await self.ends_within(self._grace_s):
            self._send(signal.SIGKILL)
            await self.ended()
        await asyncio.wait({self._listening}, timeout=TERM_GRACE_S)

    async def ended(self) -> None:
        """Waits for its end alone; asyncio's own `wait` also waits for whoever else holds its pipes."""
        while self.process.returncode is None:
            await asyncio.sleep(POLL_S)

    async def ends_within(self, time_s: float) -> bool:
        try:
            await asyncio.wait_for(self.ended(), time_s)
        except TimeoutError:
            return False
        return True

    async def died(self) -> str:
        """Waits for its end; how it ended, with its last words."""
        await self.ended()
        await asyncio.wait({self._listening}, timeout=1.0)
        code = self.process.returncode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        last = self.last_words
        return f"{self.name} {how}" + (f": {last}" if last else "")

    @property
    def last_words(self) -> str:
        """The end of what it said on stderr, without the frames of a traceback."""
        spoken = [line for line in self._last_lines if not line.startswith((" ", "Traceback"))]
        return " | ".join(spoken[-SHOWN_LINES:])

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None

    @property
    def was_killed(self) -> bool:
        """By a signal: the memory killer's way, or another's."""
        return (self.process.returncode or 0) < 0

    async def read_line(self) -> bytes:
        """The next line of its stdout; empty at the end."""
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    def write_line(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def _listen(self) -> None:
        spoken = self.process.stderr or self.process.stdout
        assert spoken is not None
        async for line in spoken:
            text = line.decode(errors="replace").rstrip()
            if text:
                self._last_lines.append(text)
                self._journal.log(_level(text), self.name, text)

    def _send(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            try:
                self.process.send_signal(number)
            except ProcessLookupError:
                return


class Child(Command):
    """A program of ours, by its module: its stdout is for us, line by line."""

    def __init__(self, name: str, module: str, arguments: list[str], journal: Journal, *, stdin: bool = False) -> None:
        super().__init__(name, [sys.executable, "-m", module, *arguments], journal, stdin=stdin)


def _level(line: str) -> Level:
    found = _PREFIX.match(line)
    return _LEVELS.get(found[1], "error") if found else "info"
