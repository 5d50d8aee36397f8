"""The lab on one machine: brings up its servers and processes in order, keeps them, and ends them.

Order: lock, port, leftovers of a killed lab, PostgreSQL and Valkey, web server and first-start data, recorder,
control worker, the two local nodes, the demonstration. This process touches neither database nor broker itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO
from urllib.parse import urlsplit

from labsite.first_start import LocalNode, local_nodes
from labsite.instance import allowed_hosts, free_port, lock_home, reachable_host
from labsite.processes import StartFailed, adopt_orphans, end_processes, last_lines, spawn
from labsite.services import Services
from labsite.supervisor import MARK, Child, Supervisor, leftovers

REPOSITORY = Path(__file__).resolve().parent.parent
TICK_S = 0.25
FIRST_PAGE_S = 60.0
NODE_SECRETS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")


@dataclass(frozen=True)
class LabOptions:
    host: str = "127.0.0.1"
    port: int = 8000
    demo: bool = False
    exit_after_demo: bool = False
    json_file: Path | None = None


class Interrupted(Exception):
    """The lab was told to stop while it was still starting."""


class Lab:
    """`run` returns the exit status once everything has ended."""

    def __init__(self, home: Path, options: LabOptions) -> None:
        self._home = home
        self._options = options
        self._stopping = threading.Event()
        self._started_at = time.monotonic()
        self._terminal: TextIO | None = sys.stdout
        self._supervisor = Supervisor(say=self._say)

    def run(self) -> int:
        """Raises CannotStart or StartFailed, with nothing left running."""
        with lock_home(self._home):
            self._port = free_port(self._options.host, self._options.port)
            self._listen_to_signals()
            adopt_orphans()
            self._say(f"lab on {self._home}")
            self._end_leftovers()
            services = Services(self._home, bind=self._options.host)
            self._supervisor.servers = services.embedded
            try:
                self._start(services)
                return self._keep()
            except Interrupted:
                return 1
            finally:
                self._say("stopping")
                self._supervisor.stop()
                services.stop()
                self._say("stopped")

    @property
    def url(self) -> str:
        return f"http://{reachable_host(self._options.host)}:{self._port}"

    def _start(self, services: Services) -> None:
        services.start()
        for server in services.embedded:
            self._say(f"{server.name} {'adopted from an earlier lab' if server.adopted else 'started'}")
        self._env = self._environment(services)
        control_plane = self._control_plane()
        # The web server takes as long to load as the database to be prepared: both at once.
        self._add("web", control_plane.pop("web"))
        self._prepare()
        for name, command in control_plane.items():
            self._add(name, command)
        self._wait_for_web()
        node_env = {key: value for key, value in self._env.items() if key not in NODE_SECRETS}
        for node in local_nodes(self._home):
            log = self._log(f"node-{node.name}")
            join_or_run = partial(self._node_command, node)
            self._supervisor.add(
                Child(f"node {node.name}", join_or_run, node_env, log, cwd=REPOSITORY, leaves_first=True)
            )
        self._say(f"ready at {self.url} after {time.monotonic() - self._started_at:.1f} s")

    def _keep(self) -> int:
        """The loop: until a signal, or the end of the demonstration where that ends the lab."""
        demo = self._spawn_demo() if self._options.demo else None
        while not self._stopping.wait(TICK_S):
            self._supervisor.tick()
            if demo is not None and demo.poll() is not None:
                if self._options.exit_after_demo:
                    return demo.returncode
                self._say(f"the lab stays up at {self.url}; Ctrl-C ends it")
                demo = None
        # A demonstration that was cut short has not shown that every run is valid.
        return 1 if demo is not None and self._options.exit_after_demo else 0

    def _environment(self, services: Services) -> dict[str, str]:
        own_hosts = allowed_hosts(self._options.host)
        environment = {
            **os.environ,
            **services.urls,
            "DJANGO_SETTINGS_MODULE": "labsite.settings",
            "LAB_HOME": str(self._home),
            "LAB_URL": os.environ.get("LAB_URL") or self.url,
            "ALLOWED_HOSTS": ",".join(filter(None, (os.environ.get("ALLOWED_HOSTS"), own_hosts))),
            "LAB_PROCESS": "1",
            "PYTHONUNBUFFERED": "1",
            MARK: str(self._home),
        }
        broker = urlsplit(services.urls["REDIS_URL"])
        if broker.hostname in ("127.0.0.1", "localhost") and "LAB_BROKER_PUBLIC_URL" not in environment:
            environment["LAB_BROKER_PUBLIC_URL"] = f"redis://{reachable_host(self._options.host)}:{broker.port}/0"
        return environment

    def _control_plane(self) -> dict[str, list[str]]:
        manage = [sys.executable, str(REPOSITORY / "manage.py")]
        host, port = self._options.host, str(self._port)
        return {
            "web": [
                sys.executable, "-m", "uvicorn", "labsite.asgi:application", "--host", host, "--port", port,
                "--no-access-log", "--timeout-graceful-shutdown", "1",
            ],
            "recorder": [*manage, "record"],
            "control": [
                sys.executable, "-m", "celery", "-A", "labsite", "worker", "-B", "-Q", "control", "-P", "solo",
                "-n", "control@%h", "-l", "warning", "--without-gossip", "--without-mingle",
                "-s", str(self._home / "celerybeat-schedule"),
            ],
        }  # fmt: skip

    def _node_command(self, node: LocalNode) -> list[str]:
        """Joins on the first start, with the token that the preparation left; runs from then on."""
        directory = self._home / "nodes" / node.name
        where = ["--home", str(directory), "--models", str(self._home / "models")]
        agent = [sys.executable, "-m", "runners.node"]
        if node.has_joined(self._home):
            node.point_at(self._home, self.url)
            return [*agent, "run", *where]
        if not node.token_file(self._home).exists():
            self._prepare()
        token = node.token_file(self._home).read_text()
        node.token_file(self._home).unlink()
        return [*agent, "join", self.url, "--token", token, *where]

    def _prepare(self) -> None:
        """Migrations, chip catalog, first-start data: in a process of its own, since here Django has no database."""
        log = self._log("prepare")
        command = [sys.executable, str(REPOSITORY / "manage.py"), "prepare"]
        with log.open("ab") as errors, tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, env=self._env, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=REPOSITORY
            )
            while process.poll() is None:
                self._pause()
            output.seek(0)
            lines = output.read().splitlines()
        if process.returncode != 0:
            raise StartFailed(f"the database could not be prepared: {last_lines(log)} (see {log})")
        for line in lines:
            self._say(line)

    def _wait_for_web(self) -> None:
        deadline = time.monotonic() + FIRST_PAGE_S
        while not self._web_answers():
            self._pause()
            self._supervisor.tick()
            if time.monotonic() > deadline:
                raise StartFailed(f"the web server does not answer: {last_lines(self._log('web'), 1)}")

    def _pause(self) -> None:
        """One tick's wait while starting. Raises Interrupted."""
        if self._stopping.wait(TICK_S):
            raise Interrupted

    def _web_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def _spawn_demo(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "labsite.demo", "--credentials", str(self._home / "credentials.json")]
        if self._options.json_file:
            command += ["--json", str(self._options.json_file.resolve())]
        demo = spawn(command, log=None, env=self._env, cwd=REPOSITORY)
        self._supervisor.waited_for.append(demo)
        return demo

    def _end_leftovers(self) -> None:
        left = leftovers(self._home)
        if left:
            names = ", ".join(sorted({process.name() for process in left if process.is_running()}))
            end_processes(left, 5.0)
            self._say(f"ended {len(left)} processes that a killed lab had left ({names})")

    def _add(self, name: str, command: list[str]) -> None:
        self._supervisor.add(Child(name, partial(list, command), self._env, self._log(name), cwd=REPOSITORY))

    def _log(self, name: str) -> Path:
        directory = self._home / "logs"
        directory.mkdir(exist_ok=True)
        return directory / f"{name}.log"

    def _say(self, line: str) -> None:
        if self._terminal is None:
            return
        try:
            print(f"{time.strftime('%H:%M:%S')} {line}", file=self._terminal, flush=True)
        except OSError:
            # Whoever read our words is gone; that must not keep us from ending our processes.
            self._terminal = None

    def _listen_to_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # ignored under nohup
            signal.signal(signal.SIGHUP, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
