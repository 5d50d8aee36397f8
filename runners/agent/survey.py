"""Learns what the machine is and what it can do, in processes of their own, before the node takes its first run.

The ceilings are kept in the node's home and measured again only when the chip changed or the operator asks.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from typing import Any

from runners import processes
from runners.agent.home import NodeHome

CEILINGS_FILE = "ceilings.json"
TIME_LIMIT_S = 90.0
KEPT_CHARACTERS = 300

log = logging.getLogger(__name__)


class Survey:
    """One pass of detecting and, where needed, measuring. `poll` moves it on without waiting."""

    def __init__(self, home: NodeHome, measure: bool) -> None:
        self._home = home
        self._measure_asked = measure
        self._output, self._errors = home.root / "survey.json", home.root / "survey.log"
        self._step = "detect"
        self.facts: dict[str, Any] | None = None
        self.ceilings: dict[str, Any] | None = None
        self._start()

    @property
    def done(self) -> bool:
        return self._step == "done"

    def poll(self) -> None:
        if self.done:
            return
        if self._process.poll() is None:
            if time.monotonic() - self._started_s > TIME_LIMIT_S:
                log.error("%s took longer than %.0f s and was given up", self._step, TIME_LIMIT_S)
                self.stop()
            return
        result = self._take_result()
        if self._step == "detect":
            self.facts = result
            self.ceilings = self._known_ceilings()
            if self.ceilings is None:
                self._step = "ceilings"
                log.info("measuring this machine's ceilings, once")
                self._start()
                return
        else:
            self.ceilings = result
            if result is not None:
                self._keep_ceilings(result)
        self._step = "done"

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._step = "done"

    def _start(self) -> None:
        self._started_s = time.monotonic()
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"runners.agent.{self._step}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=processes.marked_environment(),
            )

    def _take_result(self) -> dict[str, Any] | None:
        if self._process.returncode == 0:
            result: dict[str, Any] = json.loads(self._output.read_text())
            return result
        said = self._errors.read_text(errors="replace").strip()[-KEPT_CHARACTERS:]
        log.error("%s failed with status %s: %s", self._step, self._process.returncode, said)
        return None

    def _keep_ceilings(self, result: dict[str, Any]) -> None:
        try:
            self._home.write_json(CEILINGS_FILE, result)
        except OSError as error:
            log.error("the ceilings are not kept, and are measured again at the next start: %s", error)

    def _known_ceilings(self) -> dict[str, Any] | None:
        known = self._home.read_json(CEILINGS_FILE)
        if known is None or self._measure_asked or self.facts is None:
            return None
        same = known["chip"] == self.facts["cpu"]["model"] and known["cores"] == self.facts["cpu"]["cores"]
        return known if same else None
