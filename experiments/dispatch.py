"""Leaves Celery messages: to a node, that a run waits for it; to the control worker, that there is something to place.

Tasks are named, never imported. A message is a hint: Postgres is the truth, so it may be lost, late or doubled.
"""

from __future__ import annotations

from typing import Any

import redis
from celery import Celery
from django.conf import settings
from kombu.connection import Connection
from kombu.exceptions import OperationalError

from hardware.broker import CONNECT_TIMEOUT_S, QUEUE, node_prefix

NODE_TASK = "runners.tasks.run_attempt"
PLACE_TASK = "experiments.tasks.place_runs"

_producer = Celery("dispatch", set_as_current=False)
_producer.conf.update(task_ignore_result=True, result_backend=None, task_serializer="json")


class BrokerDown(Exception):
    """The message could not be left; it will be sent again when the broker is back."""

    retry = True


def send_attempt(slug: str, run_id: int, attempt: int) -> None:
    """Leaves `{run_id, attempt}` for the node. Raises BrokerDown within seconds."""
    _send(NODE_TASK, [run_id, attempt], QUEUE, node_prefix(slug))


def send_placement() -> None:
    """Asks the control worker to place soon; old requests expire. Raises BrokerDown within seconds."""
    _send(PLACE_TASK, [], settings.CELERY_TASK_DEFAULT_QUEUE, "", expires=10)


def _send(task: str, args: list[int], queue: str, key_prefix: str, **options: Any) -> None:
    transport = {
        "global_keyprefix": key_prefix,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": CONNECT_TIMEOUT_S,
        # one try: whoever calls has something better to do than to wait for a broker
        "max_retries": 1,
        "interval_start": 0,
    }
    try:
        with Connection(settings.REDIS_URL, transport_options=transport) as connection:  # type: ignore[no-untyped-call]
            _producer.send_task(
                task, args=args, queue=queue, connection=connection, retry=False, ignore_result=True, **options
            )
    except (OperationalError, redis.RedisError, OSError) as error:
        raise BrokerDown(f"{task} not sent to {key_prefix}{queue}: {error}") from error
