"""kill -9 in mid-run: whatever dies, the run comes to its end, and no event is lost or stored twice."""

from __future__ import annotations

import psutil
import pytest
from whole_lab import WholeLab

from faults.stored import (
    assert_all_stored_once,
    assert_succeeded,
    samples_stored,
    start_run,
    wait_until_judged,
)
from runners.processes import is_running

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("names", [("recorder", "control", "web"), ("valkey", "postgres")], ids="+".join)
def test_a_run_goes_on_through_the_death_of(names: tuple[str, ...], lab: WholeLab) -> None:
    run_id = start_run(lab, duration_s=10)
    for name in names:
        lab.kill(name)
    for name in names:
        lab.wait_for_restart(name)
    assert_succeeded(lab, run_id, attempt=1)


def test_a_dead_control_worker_leaves_no_beat_beside_the_next_ones(lab: WholeLab) -> None:
    before = control_processes(lab)
    lab.kill("control")
    lab.wait(lambda: not any(is_running(process) for process in before), 20)
    lab.wait(lambda: len(control_processes(lab)) == len(before))


def test_a_run_whose_agent_dies_is_tried_again_by_the_next_agent(lab: WholeLab) -> None:
    run_id = start_run(lab, duration_s=5)
    lab.kill("agent")
    lab.wait(lambda: lab.processes_of(run_id, 1) == [], 20)
    assert_succeeded(lab, run_id, attempt=2)
    assert_failed_attempt_is_whole(lab, run_id, "the node's agent ended while the run was under way")


def test_a_run_whose_engine_dies_is_tried_again(lab: WholeLab) -> None:
    run_id = start_run(lab, duration_s=5)
    lab.kill("engine")
    assert_succeeded(lab, run_id, attempt=2)
    assert_failed_attempt_is_whole(lab, run_id, "server")


def test_a_cancelled_run_leaves_no_process_and_keeps_what_it_had_measured(lab: WholeLab) -> None:
    run_id = start_run(lab, duration_s=300)
    assert len(lab.processes_of(run_id, 1)) >= 4
    stored = samples_stored(lab, run_id, attempt=1)
    lab.post(f"/runs/{run_id}/cancel")
    lab.wait(lambda: lab.run(run_id)["state"] == "cancelled")
    assert lab.processes_of(run_id, 1) == []
    run = wait_until_judged(lab, run_id)
    assert "cancelled" in run["reasons"]
    assert assert_all_stored_once(lab, run_id, attempt=1)["outcome"] == "cancelled"
    assert samples_stored(lab, run_id, attempt=1) >= stored


def assert_failed_attempt_is_whole(lab: WholeLab, run_id: int, words: str) -> None:
    first = lab.run(run_id)["attempts"][0]
    assert first["state"] == "failed"
    assert words in first["reason"]
    assert assert_all_stored_once(lab, run_id, attempt=1)["outcome"] == "failed"


def control_processes(lab: WholeLab) -> list[psutil.Process]:
    """The worker and its beat."""
    return [process for process in lab.processes() if "celery" in process.cmdline()]
