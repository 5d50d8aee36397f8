"""A real lab for an agent: web server and recorder as processes, the state machine's services in the test's own.

A node's agent is started as `python -m runners.node`, as an operator would.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import psutil

from experiments import services as state_machine
from experiments.models import Attempt, Experiment, Run
from experiments.services import submit_experiment
from hardware.models import Node
from hardware.services import issue_join_token, load_catalog, register_node
from labsite.accounts.models import Project, User
from runners import models
from runners.agent.detect import detect
from runners.agent.home import NodeHome

REPOSITORY = Path(__file__).resolve().parents[3]
MODEL = "smollm2-135m-instruct"


class WaitFor(Protocol):
    def __call__(self, condition: Callable[[], object], within_s: float = 30.0) -> None: ...


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A child of the test with its output in a file."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.pid = self.popen.pid

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def end(self, signum: int = signal.SIGTERM, within_s: float = 10.0) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(signum)
        try:
            return self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise


class Lab:
    """The control plane of one test, and the agents that it started."""

    def __init__(self, env: dict[str, str], directory: Path, wait_for: WaitFor) -> None:
        self.env = env
        self.directory = directory
        self.wait_for = wait_for
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: list[Process] = []
        self.models_dir = models.default_models_dir()
        self.project = Project.objects.create(name="team", slug="team")
        self.user = User.objects.create_superuser("admin", password=None)
        load_catalog()

    def spawn(self, name: str, *command: str, env: dict[str, str] | None = None) -> Process:
        process = Process([sys.executable, *command], {**self.env, **(env or {})}, self.directory / f"{name}.log")
        self.processes.append(process)
        return process

    def start_web(self) -> Process:
        web = self.spawn(
            "web", "-m", "uvicorn", "labsite.asgi:application", "--host", "127.0.0.1", "--port", str(self.port)
        )
        self.wait_for(lambda: self.answers() or web.popen.poll() is not None, 60)
        assert web.popen.poll() is None, web.said()
        return web

    def start_recorder(self) -> Process:
        return self.spawn("recorder", str(REPOSITORY / "manage.py"), "record")

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def register(self, name: str, kind: str) -> tuple[Node, str]:
        node = register_node(name, kind=kind, chip_id="h100-sxm" if kind == "modelled" else None)
        return node, issue_join_token(node)

    def join(self, name: str, kind: str = "modelled", **env: str) -> tuple[Node, Process]:
        """A new node whose agent runs and holds a lease."""
        node, token = self.register(name, kind)
        agent = self.spawn(f"agent-{name}", *self.agent_command("join", name), self.url, "--token", token, env=env)
        self.wait_for(lambda: self.state_of(node) == "online" or agent.popen.poll() is not None, 120)
        assert agent.popen.poll() is None, agent.said()
        return node, agent

    def join_measured(self, name: str) -> tuple[Node, Process]:
        """This machine as a node, with its ceilings known already, so that they need not be measured."""
        machine = detect()["cpu"]
        known = {"chip": machine["model"], "cores": machine["cores"], "known": True, "measured_at": 0.0}
        known |= {"matmul": {"by_precision": {}}, "memory_bandwidth": {"by_threads": {}}}
        NodeHome(self.home_of(name)).write_json("ceilings.json", known)
        return self.join(name, "measured")

    def run_agent(self, name: str, **env: str) -> Process:
        return self.spawn(f"agent-{name}", *self.agent_command("run", name), env=env)

    def agent_command(self, command: str, name: str) -> list[str]:
        home = str(self.home_of(name))
        return ["-m", "runners.node", command, "--home", home, "--models", str(self.models_dir)]

    def home_of(self, name: str) -> Path:
        return self.directory / "nodes" / name

    def submit(self, node: Node, **changes: Any) -> Run:
        """One run for that node."""
        return self.submit_all(node, **changes).runs.get()

    def submit_all(self, node: Node, **changes: Any) -> Experiment:
        document = {
            "name": "an experiment",
            "model": MODEL,
            "nodes": {"names": [node.slug]},
            "workload": workload(),
            "repeats": 1,
            **changes,
        }
        return submit_experiment(self.user, self.project, document)

    def reap(self) -> None:
        """One round of the control worker's watch."""
        state_machine.reap()

    def wait(self, condition: Callable[[], object], within_s: float = 60.0) -> None:
        """Waits while the control plane does its rounds."""

        def after_a_round() -> object:
            self.reap()
            return condition()

        self.wait_for(after_a_round, within_s)

    def state_of(self, thing: Node | Run | Attempt) -> str:
        return str(type(thing).objects.values_list("state", flat=True).get(pk=thing.pk))

    def attempt(self, run: Run, number: int = 1) -> Attempt:
        return Attempt.objects.get(run=run, number=number)


def workload(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "synthetic",
        "input_len": {"dist": "fixed", "tokens": 32},
        "output_len": {"dist": "fixed", "tokens": 8},
        "arrival": {"kind": "closed", "max_concurrency": 2},
        "num_requests": 24,
        "warmup": {"num_requests": 2},
        **changes,
    }
