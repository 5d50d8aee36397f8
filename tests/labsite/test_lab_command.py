"""`manage.py lab` as a person meets it: a real lab with all its processes, in a home of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from labsite.processes import end_processes, wait_until
from labsite.supervisor import leftovers

REPOSITORY = Path(__file__).resolve().parent.parent.parent
START_S = 90.0
MODELLED = """
name: On the modelled node
model: smollm2-135m-instruct
nodes: {names: [modelled]}
workload:
  kind: synthetic
  arrival: {kind: closed, max_concurrency: 4}
  num_requests: 40
matrix: {engine.weights: [bf16, int8]}
baseline: {engine.weights: bf16}
repeats: 2
"""
Start = Callable[..., "RunningLab"]


class RunningLab:
    """A lab in a process of its own; what it prints is in `output`."""

    def __init__(self, home: Path, *arguments: str, through_pipe: bool = False) -> None:
        self.home = home
        self._log = home.parent / f"lab-{len(list(home.parent.glob('lab-*.log')))}.log"
        # A lab of its own starts its own servers, whatever the tests themselves stand on.
        env = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL")}
        command = [sys.executable, str(REPOSITORY / "manage.py"), "lab", "--port", "0", *arguments]
        with self._log.open("wb") as log:
            self.process = psutil.Popen(
                command,
                stdout=subprocess.PIPE if through_pipe else log,
                stderr=subprocess.STDOUT,
                env={**env, "LAB_HOME": str(home)},
                cwd=home.parent,
            )

    @property
    def output(self) -> str:
        return self._log.read_text()

    @property
    def url(self) -> str:
        found = re.search(r"ready at (http://\S+)", self.output)
        assert found, self.output
        return found[1]

    def wait_for(self, text: str) -> None:
        ended = wait_until(lambda: text in self.output or self.process.poll() is not None, START_S)
        assert ended and text in self.output, self.output

    def get(self, path: str) -> tuple[int, bytes]:
        token = json.loads((self.home / "credentials.json").read_text())["token"]
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read()

    def server_pids(self) -> list[int]:
        files = (self.home / "postgres/data/postmaster.pid", self.home / "valkey/valkey.pid")
        return [int(file.read_text().split()[0]) for file in files]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return int(self.process.wait(20))


@pytest.fixture
def start_lab(tmp_path: Path) -> Iterator[Start]:
    home = tmp_path / "home"
    started: list[RunningLab] = []

    def start(*arguments: str) -> RunningLab:
        started.append(RunningLab(home, *arguments))
        return started[-1]

    yield start
    end_processes([psutil.Process(lab.process.pid) for lab in started if lab.process.poll() is None], 12)
    end_processes(leftovers(home), 5)
    end_processes(servers_on(home), 5)


def servers_on(home: Path) -> list[psutil.Process]:
    """PostgreSQL and Valkey of this home, found by where they work."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(home):
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, ValueError):
            continue
    return found


@pytest.mark.timeout(400)
def test_a_lab_starts_from_nothing_restarts_what_dies_and_ends_without_a_process_left(start_lab: Start):
    lab = start_lab()
    lab.wait_for("ready at")

    credentials = lab.home / "credentials.json"
    kept = json.loads(credentials.read_text())
    assert stat.S_IMODE(credentials.stat().st_mode) == 0o600
    assert kept.keys() == {"url", "username", "password", "token"}
    assert kept["url"] == lab.url
    assert lab.output.count(kept["password"]) == lab.output.count(kept["token"]) == 1
    assert lab.get("/health") == (200, b'{"status": "ok"}')

    for pid in lab.server_pids():
        os.kill(pid, signal.SIGKILL)
    lab.wait_for("postgres restarted")
    lab.wait_for("valkey restarted")
    assert wait_until(lambda: answers(lab), 30)

    status, comparison = demonstrate(lab)
    assert status == 0, lab.output
    assert [trial["settings"] for trial in comparison["trials"]] == [{"engine.weights": w} for w in ("bf16", "int8")]
    for trial in comparison["trials"]:
        assert len(trial["runs"]) == 2
        assert all(run["valid"] and run["reasons"] == [] and run["output_tokens"] > 0 for run in trial["runs"])
        assert trial["metrics"].keys() >= {"output_throughput", "ttft", "tpot"}
        assert trial["metrics"]["output_throughput"].keys() >= {"median", "low", "high", "n"}

    second = start_lab()
    assert second.process.wait(60) == 1
    assert f"a lab already runs on {lab.home} (process {lab.process.pid})" in second.output

    web = next(p for p in lab.process.children() if "uvicorn" in p.cmdline())
    web.kill()
    lab.wait_for("web restarted")
    assert "web was killed by signal 9" in lab.output
    assert wait_until(lambda: answers(lab), 30)

    family = lab.process.children(recursive=True)
    assert lab.end() == 0
    assert not any(lives(process.pid) for process in family)
    assert leftovers(lab.home) == []


@pytest.mark.timeout(400)
def test_after_kill_9_the_next_start_takes_over_servers_data_and_leftovers(start_lab: Start):
    first = start_lab()
    first.wait_for("ready at")
    token = json.loads((first.home / "credentials.json").read_text())["token"]
    servers = first.server_pids()
    first.process.kill()
    first.process.wait(10)

    second = start_lab()
    second.wait_for("ready at")
    assert "postgres adopted from an earlier lab" in second.output
    assert "valkey adopted from an earlier lab" in second.output
    assert second.server_pids() == servers
    assert json.loads((second.home / "credentials.json").read_text())["token"] == token
    assert token not in second.output

    assert second.end() == 0
    assert not any(lives(pid) for pid in servers)
    assert leftovers(second.home) == []


def test_a_port_in_use_is_named_and_nothing_is_started(start_lab: Start):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        lab = start_lab("--port", str(port))
        assert lab.process.wait(60) == 1
    assert f"port {port} on 127.0.0.1 is in use by process {os.getpid()}" in lab.output
    assert not (lab.home / "postgres").exists()


def test_options_of_the_demonstration_are_refused_without_it(start_lab: Start):
    lab = start_lab("--exit")
    assert lab.process.wait(60) == 1
    assert "--exit and --json go with --demo" in lab.output


def test_a_lab_that_is_told_to_stop_while_it_starts_leaves_nothing(start_lab: Start):
    lab = start_lab()
    lab.wait_for("postgres started")
    assert lab.end() == 1
    assert leftovers(lab.home) == []
    assert servers_on(lab.home) == []


def test_a_lab_whose_reader_has_gone_still_ends_everything(tmp_path: Path):
    home = tmp_path / "home"
    lab = RunningLab(home, through_pipe=True)
    assert lab.process.stdout
    line = b""
    while b"ready at" not in line:
        line = lab.process.stdout.readline()
        assert line, "the lab ended"
    lab.process.stdout.close()
    assert lab.end() == 0
    assert leftovers(home) == [] and servers_on(home) == []


def lives(pid: int) -> bool:
    """A zombie does not: whether it is taken away at once is up to this machine's init."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def demonstrate(lab: RunningLab) -> tuple[int, dict[str, Any]]:
    """The demonstration's path with an experiment on the modelled node, which takes no time."""
    document, result = lab.home / "modelled.yaml", lab.home / "comparison.json"
    document.write_text(MODELLED)
    command = [sys.executable, "-m", "labsite.demo", "--credentials", str(lab.home / "credentials.json")]
    command += ["--document", str(document), "--json", str(result)]
    ended = subprocess.run(command, cwd=REPOSITORY, timeout=150, capture_output=True, text=True)
    assert result.exists(), ended.stdout + ended.stderr
    return ended.returncode, json.loads(result.read_text())


def answers(lab: RunningLab) -> bool:
    try:
        return lab.get("/health")[0] == 200
    except OSError:
        return False
