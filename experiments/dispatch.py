"""Tells a node that a run is waiting for it: one Celery message on the node's own queue.

The task is named, never imported. A message is a hint: Postgres is the truth, so it may be lost, late or doubled.
"""

from __future__ import annotations

import redis
from celery import Celery
from django.conf import settings
from kombu.connection import Connection
from kombu.exceptions import OperationalError

from hardware.broker import CONNECT_TIMEOUT_S, QUEUE, node_prefix

TASK = "runners.tasks.run_attempt"

_producer = Celery("dispatch", set_as_current=False)
_producer.conf.update(task_ignore_result=True, result_backend=None, task_serializer="json")


class BrokerDown(Exception):
    """The message could not be left; it will be sent again when the broker is back."""

    retry = True


def send_attempt(slug: str, run_id: int, attempt: int) -> None:
    """Leaves `{run_id, attempt}` for the node. Raises BrokerDown within seconds."""
    options = {
        "global_keyprefix": node_prefix(slug),
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": CONNECT_TIMEOUT_S,
    }
    try:
        with Connection(settings.REDIS_URL, transport_options=options) as connection:  # type: ignore[no-untyped-call]
            _producer.send_task(
                TASK, args=[run_id, attempt], queue=QUEUE, connection=connection, retry=False, ignore_result=True
            )
    except (OperationalError, redis.RedisError, OSError) as error:
        raise BrokerDown(f"message for node {slug} not sent: {error}") from error
