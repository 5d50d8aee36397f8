"""The process group that executes one attempt, seen from the agent: started, ended, and its last word seen to.

The group's leader is `runners.execute`; it writes its own Report when it comes to an end of its own. Where the agent
ends it, or finds it dead, the agent writes the Report. An attempt counts as ended only when no process is left.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners import processes
from runners.agent.home import NodeHome
from runners.agent.survey import CEILINGS_FILE
from runners.engines.listed import ENGINES_FILE
from runners.events import Report
from runners.spool import AttemptKey, SpoolComplete, SpoolWriter

TERM_GRACE_S = 3.0
KILL_WAIT_S = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """Why the agent ended a run: what its Report will say."""

    outcome: str
    error: str
    retry: bool


LEFT_BY_AGENT = Ending("failed", "the node's agent ended while the run was under way", retry=True)


class RunProcess:
    """One attempt under way. Not thread-safe; starts its process on the caller's thread, which must outlive it."""

    def __init__(self, home: NodeHome, key: AttemptKey, spec: dict[str, Any], models_dir: Path, modelled: bool) -> None:
        """Raises OSError where it can't be started."""
        self.key = key
        self._home = home
        self._ending: Ending | None = None
        self._term_sent_s: float | None = None
        spec_file = home.write_json(f"spool/{key}.spec.json", spec)
        output = home.log(key).open("ab")
        guard, lifeline = os.pipe()
        self._lifeline: int | None = lifeline
        command = [
            sys.executable, "-m", "runners.execute", "--spec", str(spec_file), "--spool", str(home.spool(key)),
            "--models", str(models_dir), "--traces", str(home.traces_dir),
            "--ceilings", str(home.root / CEILINGS_FILE), "--guard-fd", str(guard),
            "--engines", str(home.root / ENGINES_FILE), *(["--modelled"] if modelled else []),
        ]  # fmt: skip
        try:
            with output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=[guard],
                    env=processes.marked_environment(home.mark(key)),
                )
        finally:
            os.close(guard)
        self.pid = self._process.pid

    def end(self, ending: Ending) -> None:
        """Asks the leader to stop; `poll` sees to the rest. The first reason given stands."""
        if self._ending is None:
            self._ending = ending
            self._term_sent_s = time.monotonic()
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def poll(self) -> Ending | None:
        """Looks after it without waiting. Once no process of the attempt is left: how it ended, where its own process
        has not said so itself."""
        if self._process.poll() is None:
            if self._term_sent_s is not None and time.monotonic() - self._term_sent_s > TERM_GRACE_S:
                processes.signal_group(self.pid, signal.SIGKILL)
            return None
        # The leader is gone: whoever of its group is left has nothing more to say.
        processes.signal_group(self.pid, signal.SIGKILL)
        if processes.group_is_alive(self.pid) or not processes.kill_marked(self._home.mark(self.key), KILL_WAIT_S):
            return None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        return self._ending or self._found_dead()

    def _found_dead(self) -> Ending:
        code = self._process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return Ending("failed", f"the run's process {how} without a report{_last_line(self._home.log(self.key))}", True)


def give_last_word(home: NodeHome, key: AttemptKey, ending: Ending) -> None:
    """Writes the attempt's Report where its own process did not, and no process of it is left. Raises SpoolFull."""
    try:
        writer = SpoolWriter(home.spool(key))
    except SpoolComplete:
        return
    log.info("run %d, attempt %d: %s (%s)", key.run_id, key.attempt, ending.outcome, ending.error)
    writer.close_with(Report.model_validate({"outcome": ending.outcome, "error": ending.error, "retry": ending.retry}))


def clear_leftovers(home: NodeHome) -> list[AttemptKey]:
    """Kills what an earlier agent left running; the attempts that have a spool here. Their last word may be missing."""
    keys = home.spooled()
    for key in keys:
        if not processes.kill_marked(home.mark(key), KILL_WAIT_S):
            raise RuntimeError(f"processes of attempt {key} can't be killed")
    return keys


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""
