"""A measured node's agent in trouble, with the real runtime: whatever is killed, no event is lost or stored twice, and
no process is left."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from running_lab import Lab, Process
from stored_events import assert_all_stored_once

from experiments.models import Attempt, Run, Sample
from experiments.services import cancel_run
from hardware.models import Node
from labsite.services import Services
from labsite.valkey import EmbeddedValkey
from runners.agent.home import NodeHome
from runners.processes import ATTEMPT_MARK, is_running, marked_processes
from runners.spool import AttemptKey

pytestmark = pytest.mark.django_db(transaction=True)
LONG_S = 600.0


def load(duration_s: float) -> dict[str, Any]:
    return {
        "kind": "synthetic",
        "input_len": {"dist": "fixed", "tokens": 16},
        "output_len": {"dist": "fixed", "tokens": 8},
        "arrival": {"kind": "closed", "max_concurrency": 2},
        "duration_s": duration_s,
        "warmup": {"num_requests": 1},
    }


@pytest.fixture
def node(lab: Lab, sample_model: Path) -> tuple[Node, Process]:
    return lab.join_measured("n1")


def start_run(lab: Lab, node: Node, duration_s: float = LONG_S) -> Run:
    """A run that is under way: its first samples are stored."""
    run = lab.submit(node, workload=load(duration_s), engine={"threads": 1}, budget={"max_run_seconds": 1200})
    lab.wait(lambda: Sample.objects.filter(run_id=run.pk).count() > 3 or lab.state_of(run) == "failed", 180)
    assert lab.state_of(run) == "running", Run.objects.get(pk=run.pk).reason
    return run


def processes_of(lab: Lab, run: Run, attempt: int = 1) -> list[psutil.Process]:
    return marked_processes(ATTEMPT_MARK, NodeHome(lab.home_of("n1")).mark(AttemptKey(run.pk, attempt)))


def process_running(module: str, lab: Lab, run: Run) -> psutil.Process:
    (found,) = [process for process in processes_of(lab, run) if f"runners.{module}" in process.cmdline()]
    return found


def workers_of(agent: Process) -> list[psutil.Process]:
    living = [child for child in agent.descendants() if is_running(child)]
    return [child for child in living if "runners.agent.worker_process" in child.cmdline()]


def test_a_cancelled_run_leaves_no_process(lab: Lab, node: tuple[Node, Process]) -> None:
    run = start_run(lab, node[0])
    assert len(processes_of(lab, run)) >= 3
    cancel_run(lab.user, run)
    lab.wait(lambda: lab.state_of(run) == "cancelled")
    assert processes_of(lab, run) == []
    lab.wait(lambda: lab.attempt(run).report is not None)
    assert lab.attempt(run).report["outcome"] == "cancelled"
    assert_all_stored_once(lab.attempt(run))


def test_an_agent_killed_in_mid_run_takes_its_run_with_it_and_the_next_agent_reports_it(
    lab: Lab, node: tuple[Node, Process]
) -> None:
    run = start_run(lab, node[0])
    agent_children = node[1].descendants()
    node[1].popen.kill()
    node[1].popen.wait()
    lab.wait_for(lambda: processes_of(lab, run) == [], 10)
    lab.wait_for(lambda: not any(child.is_running() for child in agent_children), 10)
    lab.run_agent("n1")
    lab.wait(lambda: lab.attempt(run).state == "failed")
    assert lab.attempt(run).reason == "the node's agent ended while the run was under way"
    assert_all_stored_once(lab.attempt(run))
    lab.wait(lambda: Attempt.objects.filter(run=run, number=2, state="running").exists())
    cancel_run(lab.user, run)
    lab.wait(lambda: lab.state_of(run) == "cancelled")
    assert processes_of(lab, run, attempt=2) == []


def test_a_stopped_agent_reports_its_run_and_ends_in_time(lab: Lab, node: tuple[Node, Process]) -> None:
    run = start_run(lab, node[0])
    assert node[1].end(within_s=8) == 0
    assert processes_of(lab, run) == []
    lab.wait(lambda: lab.attempt(run).state == "failed")
    assert lab.attempt(run).reason == "the node's agent was stopped"
    assert_all_stored_once(lab.attempt(run))


def test_a_run_goes_on_when_its_worker_is_killed(lab: Lab, node: tuple[Node, Process]) -> None:
    run = start_run(lab, node[0])
    before = {process.pid for process in processes_of(lab, run)}
    (worker,) = workers_of(node[1])
    worker.kill()
    lab.wait_for(lambda: any(another.pid != worker.pid for another in workers_of(node[1])))
    assert {process.pid for process in processes_of(lab, run)} == before
    cancel_run(lab.user, run)
    lab.wait(lambda: lab.state_of(run) == "cancelled")
    following = start_run(lab, node[0])
    cancel_run(lab.user, following)
    lab.wait(lambda: lab.state_of(following) == "cancelled")


def test_a_server_killed_in_mid_run_fails_the_attempt_and_the_run_is_tried_again(
    lab: Lab, node: tuple[Node, Process]
) -> None:
    run = start_run(lab, node[0])
    process_running("runtime.server", lab, run).kill()
    lab.wait(lambda: lab.attempt(run).state == "failed")
    assert "in mid-run the server was killed by SIGKILL" in lab.attempt(run).reason
    assert_all_stored_once(lab.attempt(run))
    # The process that wrote the report is itself the last to go.
    lab.wait_for(lambda: processes_of(lab, run) == [], 10)
    lab.wait(lambda: Attempt.objects.filter(run=run, number=2).exists())


def test_a_run_ends_when_the_lease_has_run_out(lab: Lab, node: tuple[Node, Process]) -> None:
    run = start_run(lab, node[0])
    web = next(process for process in lab.processes if "web" in process.log.name)
    last_renewed_s = time.monotonic()
    web.end(within_s=20)
    lab.wait_for(lambda: processes_of(lab, run) == [], 40)
    # The lease counts from the last heartbeat, which came at most five seconds before the web server went.
    assert time.monotonic() - last_renewed_s > 9
    assert node[1].popen.poll() is None
    lab.start_web()
    lab.wait(lambda: lab.attempt(run).state in ("failed", "lost"))
    lab.wait(lambda: Attempt.objects.filter(run=run, number=2).exists())


def test_restarts_of_web_recorder_and_broker_cost_a_run_nothing(
    lab: Lab, node: tuple[Node, Process], services: Services
) -> None:
    embedded = [server for server in services.embedded if isinstance(server, EmbeddedValkey)]
    if not embedded:
        pytest.skip("REDIS_URL names a broker that this test may not kill")
    (valkey,) = embedded
    run = start_run(lab, node[0], duration_s=30)
    web, recorder = lab.processes[:2]
    recorder.popen.kill()
    assert valkey.process is not None
    valkey.process.kill()
    valkey.process.wait()
    web.popen.kill()
    lab.wait_for(lambda: web.popen.poll() is not None and recorder.popen.poll() is not None)
    valkey.start()
    lab.start_web()
    lab.start_recorder()
    lab.wait(lambda: lab.state_of(run) == "succeeded", 180)
    run.refresh_from_db()
    assert run.attempts_made == 1
    assert_all_stored_once(lab.attempt(run))


def test_a_measured_run_keeps_both_sides_of_what_happened(lab: Lab, node: tuple[Node, Process]) -> None:
    run = start_run(lab, node[0], duration_s=5)
    lab.wait(lambda: lab.state_of(run) == "succeeded", 120)
    attempt = lab.attempt(run)
    assert_all_stored_once(attempt)
    samples = [sample.data for sample in Sample.objects.filter(run_id=run.pk)]
    assert sum(sample["output_tokens"] for sample in samples) > 0
    assert sum(sample["decode_tokens"] for sample in samples) > 0
    assert {sample["phase"] for sample in samples} == {"warmup", "measured"}
    report = attempt.report
    assert report["window_end_s"] - report["window_start_s"] == pytest.approx(5, abs=0.5)
    facts = report["facts"]
    assert facts["model"]["sha256"] == run.spec["model"]["sha256"]
    assert 0 <= facts["foreign_cpu_share"] <= 1 and facts["lab_cpu_share"] > 0
    assert facts["machine"]["packages"]["torch"] and facts["code_revision"]
    known = Node.objects.get(pk=node[0].pk)
    assert known.facts["torch"]["version"] and known.ceilings["known"] is True
    assert known.models_held[0]["sha256"] == run.spec["model"]["sha256"]
