"""The Celery worker, a child of the agent: it takes messages from the node's queue and hands claimed runs over.

Agent and worker share a socket pair: the worker sends one JSON line for a run, `{"run_id", "attempt", "spec"}` (or
`"error"` and `"retry"` where its claim was not answered), and waits for `{"run_id", "attempt", "ended": true}`. The
worker ends when that socket closes, and is started again, with growing pauses, when it ends by itself: a run under
way goes on without it.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from runners import processes
from runners.agent.home import NodeHome
from runners.spool import AttemptKey

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
STEADY_S = 60.0
KILL_WAIT_S = 3.0

log = logging.getLogger(__name__)


class Worker:
    """Keeps the worker process alive. `on_message` is called on a reader thread with each line that it sends."""

    def __init__(self, home: NodeHome, on_message: Callable[[dict[str, Any]], None]) -> None:
        self._home = home
        self._on_message = on_message
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._started_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._start_at_s = 0.0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def keep(self) -> bool:
        """Starts it if it is not running and its pause is over. True when it was found dead. Does not wait."""
        died = self._process is not None and self._process.poll() is not None
        if died:
            self._note_death()
        if self._process is None and time.monotonic() >= self._start_at_s:
            self._start()
        return died

    def answer_ended(self, key: AttemptKey) -> None:
        """Tells the worker that the run it handed over has ended, so that it takes the next message."""
        if self._socket is None:
            return
        line = json.dumps({"run_id": key.run_id, "attempt": key.attempt, "ended": True}) + "\n"
        try:
            self._socket.sendall(line.encode())
        except OSError as error:  # it has just died; the one that follows starts afresh
            log.debug("the worker did not hear that %s ended: %s", key, error)

    def stop(self) -> None:
        """Ends it at once. What it holds unworked is sent again by the control plane."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(KILL_WAIT_S)
        self._close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "runners.agent.worker_process",
                    "--home",
                    str(self._home.root),
                    "--agent-fd",
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=processes.marked_environment(),
            )
        self._socket = ours
        self._started_s = time.monotonic()
        self._reader = threading.Thread(target=self._read, args=(ours,), name="worker-reader", daemon=True)
        self._reader.start()

    def _read(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    self._on_message(json.loads(line))
        except OSError as error:
            log.debug("the worker's socket closed: %s", error)

    def _note_death(self) -> None:
        assert self._process is not None
        self._reader.join(KILL_WAIT_S)  # so that whatever it still said is in our caller's hands
        steady = time.monotonic() - self._started_s > STEADY_S
        self._pause_s = FIRST_PAUSE_S if steady else min(2 * self._pause_s, MAX_PAUSE_S)
        log.warning(
            "the worker ended with status %s; starting it again in %.0f s", self._process.returncode, self._pause_s
        )
        self._start_at_s = time.monotonic() + self._pause_s
        self._close()

    def _close(self) -> None:
        self._process = None
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
