"""`manage.py record`: the recorder, until SIGTERM. Several may run at once."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from experiments.recorder import record_until


class Command(BaseCommand):
    help = "Move events from the nodes' streams into the record tables."

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        record_until(stop)
