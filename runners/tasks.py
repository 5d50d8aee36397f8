"""The node's Celery application and its one task: a message names an attempt; the node's desk takes it.

Postgres is the truth: a message that comes twice or too late ends at the claim, which the control plane refuses.
"""

from __future__ import annotations

import logging
from typing import Protocol

from celery import Celery

from runners.spool import AttemptKey

log = logging.getLogger(__name__)
app = Celery("runners")


class Taker(Protocol):
    """Claims an attempt and has it run; says, for the log, what came of it."""

    def take(self, key: AttemptKey) -> str: ...


class TaskContext:
    """What the task works with in this process; the worker sets it before it takes messages."""

    desk: Taker


@app.task(name="runners.tasks.run_attempt", ignore_result=True)  # type: ignore[untyped-decorator]
def run_attempt(run_id: int, attempt: int) -> None:
    log.warning("run %d, attempt %d %s", run_id, attempt, TaskContext.desk.take(AttemptKey(run_id, attempt)))
