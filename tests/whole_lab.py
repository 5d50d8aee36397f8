"""A whole lab for a test: `manage.py lab` in a home of its own, with its own PostgreSQL, Valkey and two nodes.

It is met as a person meets it: by its address, its credentials and its processes. What it has stored is read from its
database; nothing here writes there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg

from labsite.processes import end_processes, wait_until
from labsite.supervisor import leftovers
from runners import models
from runners.agent.home import NodeHome
from runners.processes import ATTEMPT_MARK, is_running, marked_processes
from runners.spool import AttemptKey

REPOSITORY = Path(__file__).resolve().parent.parent
MODEL = "smollm2-135m-instruct"
START_S = 180.0
# What tells a process of the lab from the others, in its command line.
PROCESSES = {
    "web": "uvicorn",
    "recorder": "record",
    "control": "celery",
    "agent": "runners.node",
    "server": "runners.runtime.server",
    "engine": "runners.runtime.serving.engine_process",
    "client": "runners.load.client",
}


class WholeLab:
    """`start` it, and `clear` it when the test is over, whatever happened."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self._log = directory / "lab.log"
        self._restarts: dict[str, int] = {}
        self._prepare()

    # From start to end -----------------------------------------------------------------------------------------------
    def start(self) -> None:
        # A lab of its own starts its own servers, whatever the tests themselves stand on.
        env = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL", "LAB_URL")}
        self._start_of_output = len(self.output)
        with self._log.open("ab") as output:
            self.process = psutil.Popen(
                [sys.executable, str(REPOSITORY / "manage.py"), "lab", "--port", "0"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**env, "LAB_HOME": str(self.home)},
            )  # fmt: skip
        self.wait(lambda: "ready at" in self.said or self.process.poll() is not None, START_S)
        assert "ready at" in self.said, self.said
        # A node that still has a run from before is busy at once.
        self.wait(lambda: {node["state"] for node in self.get("/nodes")["items"]} <= {"online", "busy"})

    def end(self, within_s: float) -> None:
        """SIGTERM, and the time it may take from there."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(within_s)

    def clear(self) -> None:
        if self.process.poll() is None:
            end_processes([self.process], 12)
        end_processes(self.processes(), 5)

    @property
    def output(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def said(self) -> str:
        """What it has said since its last start."""
        return self.output[self._start_of_output :]

    def wait(self, condition: Callable[[], object], within_s: float = 90.0) -> None:
        """Polls until the condition holds; a web server that is just down does not end the waiting."""

        def holds() -> bool:
            try:
                return bool(condition())
            except (OSError, psycopg.OperationalError):
                return False

        assert wait_until(holds, within_s, 0.1), f"did not come true within {within_s} s; the lab said:\n{self.said}"

    # Its processes ---------------------------------------------------------------------------------------------------
    def processes(self) -> list[psutil.Process]:
        """Every process of this lab that runs, its servers among them, found by mark and by where they work."""
        found = {process.pid: process for process in [*leftovers(self.home), *self._working_at_home()]}
        return [process for process in found.values() if is_running(process)]

    def find(self, name: str) -> psutil.Process:
        """The one process of that name (see PROCESSES); of the agents and all below them the measured node's."""
        if name in ("postgres", "valkey"):
            file = {"postgres": "postgres/data/postmaster.pid", "valkey": "valkey/valkey.pid"}[name]
            return psutil.Process(int((self.home / file).read_text().split()[0]))
        found = [process for process in leftovers(self.home) if self._is_named(process, name)]
        pids = {process.pid for process in found}
        (one,) = [process for process in found if process.ppid() not in pids]
        return one

    def processes_of(self, run_id: int, attempt: int) -> list[psutil.Process]:
        """Those that execute an attempt on the measured node."""
        mark = NodeHome(self.home / "nodes" / "local").mark(AttemptKey(run_id, attempt))
        return marked_processes(ATTEMPT_MARK, mark)

    def kill(self, name: str) -> None:
        """kill -9, and waits until it is gone."""
        process = self.find(name)
        self._restarts[name] = self._count_restarts(name)
        process.kill()
        self.wait(lambda: not is_running(process), 20)

    def wait_for_restart(self, name: str) -> None:
        """Waits until the lab says that it has started it again since it was killed here."""
        self.wait(lambda: self._count_restarts(name) > self._restarts[name])

    def _count_restarts(self, name: str) -> int:
        return self.output.count(f" {name} restarted\n")

    def _is_named(self, process: psutil.Process, name: str) -> bool:
        try:
            command = process.cmdline()
        except psutil.Error:
            return False
        return PROCESSES[name] in command and (name != "agent" or str(self.home / "nodes" / "local") in command)

    def _working_at_home(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if Path(process.cwd()).is_relative_to(self.home):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    # Its API and its database ----------------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        return str(re.findall(r"ready at (http://\S+)", self.output)[-1])

    @property
    def credentials(self) -> dict[str, str]:
        kept: dict[str, str] = json.loads((self.home / "credentials.json").read_text())
        return kept

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return self._ask("POST", path, body or {})

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.credentials['token']}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        address = json.loads((self.home / "services.json").read_text())["DATABASE_URL"]
        with psycopg.connect(address, connect_timeout=10) as connection:
            return connection.execute(sql, parameters).fetchall()

    # Runs ------------------------------------------------------------------------------------------------------------
    def submit(self, document: dict[str, Any]) -> list[int]:
        """The ids of its runs, in order."""
        experiment = self.post("/experiments", document)
        runs = [run for trial in experiment["trials"] for run in trial["runs"]]
        return [run["id"] for run in sorted(runs, key=lambda run: run["position"])]

    def run(self, run_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/runs/{run_id}")
        return found

    def items(self, run_id: int, kind: str) -> list[dict[str, Any]]:
        """All records of that kind of the run's shown attempt, page by page."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.get(f"/runs/{run_id}/{kind}?after={after}&limit=5000")
            found += page["items"]
            after = page["next"]
        return found

    def _prepare(self) -> None:
        """The model need not be fetched again, and this machine's ceilings are known, roughly."""
        source = models.fetch(MODEL)
        (self.home / "models").mkdir(parents=True)
        (self.home / "models" / source.name).symlink_to(source)
        (self.home / "nodes" / "local").mkdir(parents=True)
        with (self.home / "nodes" / "local" / "ceilings.json").open("wb") as output:
            command = [sys.executable, "-m", "runners.agent.ceilings", "--budget-scale", "0.02"]
            subprocess.run(command, cwd=REPOSITORY, stdout=output, check=True)


def seconds_of(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started
