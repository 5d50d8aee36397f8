"""Reports that the agent writes for attempts whose own process wrote none, and the room on disk that they need.

A report that a full disk does not take is kept in memory and tried again until it does: the attempt counts as ended
only when its report can be read.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Collection

from runners.agent.home import NodeHome
from runners.agent.run_process import Ending, give_last_word
from runners.spool import RESERVE_BYTES, AttemptKey, SpoolFull, keep_reserve

AGAIN_S = 1.0
RESERVE_EVERY_S = 5.0

log = logging.getLogger(__name__)


class LastWords:
    """Not thread-safe, but for `fault` and `unsaid`, which any thread may read."""

    def __init__(self, home: NodeHome) -> None:
        self._home = home
        self._unsaid: dict[AttemptKey, Ending] = {}
        self._again_s = 0.0
        self._reserve_s = 0.0
        self.fault = ""
        """Why this node should be given no run: its disk has no room for what a run says. Empty where it has."""

    @property
    def unsaid(self) -> Collection[AttemptKey]:
        return self._unsaid.keys()

    def say(self, key: AttemptKey, ending: Ending) -> bool:
        """Writes the report, unless there is one; False where the disk is too full, and `retry` must do it."""
        try:
            give_last_word(self._home, key, self._unsaid.get(key, ending))
        except (SpoolFull, OSError) as error:
            if key not in self._unsaid:
                log.error("the report of attempt %s waits: %s", key, error)
            self._unsaid.setdefault(key, ending)
            self._reserve_s = 0.0
            return False
        self._unsaid.pop(key, None)
        return True

    def retry(self) -> list[AttemptKey]:
        """Tries again what could not be said, and sees to the room for later reports; which attempts have theirs now.
        Does so now and then, however often it is called."""
        now_s = time.monotonic()
        self._see_to_reserve(now_s)
        if not self._unsaid or now_s < self._again_s:
            return []
        self._again_s = now_s + AGAIN_S
        return [key for key, ending in list(self._unsaid.items()) if self.say(key, ending)]

    def _see_to_reserve(self, now_s: float) -> None:
        if now_s < self._reserve_s:
            return
        self._reserve_s = now_s + RESERVE_EVERY_S
        folder = self._home.spool_dir
        fault = "" if keep_reserve(folder) else (
            f"{folder} has too little room for what a run says: {shutil.disk_usage(folder).free:,} bytes are free, "
            f"{RESERVE_BYTES:,} are kept for reports alone; runs are taken again when there is room"
        )  # fmt: skip
        if bool(fault) != bool(self.fault):
            log.log(logging.ERROR if fault else logging.INFO, "%s", fault or f"{folder} has room again")
        self.fault = fault
