"""A Celery worker as a node runs one, for the test of its broker user: its task leaves an event on the node's stream.

Started as `python node_worker.py`; BROKER_URL and KEY_PREFIX say who it is.
"""

from __future__ import annotations

import os

import redis
from celery import Celery

app = Celery("runners", set_as_current=True)
app.conf.update(
    broker_url=os.environ["BROKER_URL"],
    # the short timeout makes the worker look for unacknowledged messages, under a lock, at once
    broker_transport_options={"global_keyprefix": os.environ["KEY_PREFIX"], "visibility_timeout": 1},
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
)


@app.task(name="runners.tasks.run_attempt")
def run_attempt(run_id: int, attempt: int) -> None:
    with redis.Redis.from_url(os.environ["BROKER_URL"]) as client:
        client.xadd(f"{os.environ['KEY_PREFIX']}run:{run_id}", {"e": "{}"}, id=f"{attempt}-1")


if __name__ == "__main__":
    app.worker_main(
        ["worker", "--pool", "solo", "--queues", "runs", "--loglevel", "INFO", "--without-gossip",
         "--without-mingle", "--without-heartbeat"]
    )  # fmt: skip
