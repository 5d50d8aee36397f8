"""The control worker: its tasks do what the services do, on its schedule and when asked."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from control_plane import ready_node, submit, team
from django.conf import settings

from experiments.models import ControlHeartbeat, Run
from experiments.tasks import place_runs, reap
from labsite.celery import app

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def test_what_the_schedule_names_exists() -> None:
    app.loader.import_default_modules()
    names = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert {"experiments.tasks.place_runs", "experiments.tasks.reap", "experiments.tasks.send_webhooks"} <= names
    assert names <= set(app.tasks)


def test_a_task_does_what_the_service_does() -> None:
    ready_node()
    submit(team())
    place_runs()
    assert Run.objects.get().state == "assigned"
    reap()
    assert ControlHeartbeat.objects.filter(name="reaper").exists()


@pytest.fixture
def control_worker(process_env: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    log = tmp_path / "worker.log"
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "labsite",
        "worker",
        "-Q",
        "control",
        "--pool",
        "solo",
        "-l",
        "INFO",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=process_env, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: " ready." in log.read_text(), log)
            yield log
        finally:
            process.terminate()
            process.wait(30)


def test_a_submission_is_placed_by_the_control_worker_without_waiting_for_its_schedule(control_worker: Path) -> None:
    ready_node()
    submit(team())
    wait_until(lambda: Run.objects.get().state == "assigned", control_worker)


def wait_until(condition: Callable[[], bool], log: Path, limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
