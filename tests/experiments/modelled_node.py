"""Plays a modelled node in the test's own process: claims, runs on the virtual clock, and sends the events.

Every part is the real one (claim, engine, cost model, stream, recorder); only the agent around them is missing.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path

import redis
from control_plane import live_attempt, ready_node

from experiments.models import Attempt, Run
from experiments.recorder import Recorder
from experiments.services import claim, place_runs
from experiments.services.node_lease import renew_lease
from hardware.broker import stream_key
from hardware.messages import Heartbeat
from hardware.models import Node
from hardware.services import load_catalog
from runners.events import EVENT, AnyEvent
from runners.execution.journal import Journal
from runners.execution.modelled import execute_modelled
from runners.spool import SUFFIX, SpoolWriter

MODELLED = {
    "nodes": {"labels": {"kind": "modelled"}},
    "chip": "h100-sxm",
    "workload": {
        "kind": "synthetic",
        "input_len": {"dist": "uniform", "min_tokens": 32, "max_tokens": 64},
        "output_len": {"dist": "fixed", "tokens": 16},
        "arrival": {"kind": "closed", "max_concurrency": 8},
        "num_requests": 32,
    },
    "matrix": {"engine.weights": ["bf16", "int8"], "engine.max_num_seqs": [1, 8]},
    "repeats": 2,
}


def modelled_node(name: str = "modelled", chip_id: str = "h100-sxm") -> Node:
    load_catalog()
    return ready_node(name, kind="modelled", chip_id=chip_id)


def events_of(attempt: Attempt) -> list[AnyEvent]:
    """What a modelled node says of the attempt, its report included. Claims the attempt."""
    spec = claim(attempt.node, attempt.run_id, attempt.number)
    with tempfile.TemporaryDirectory() as directory:
        spool = Path(directory) / f"1-1{SUFFIX}"
        journal = Journal(SpoolWriter(spool))
        journal.close_with(execute_modelled(spec, journal, {}))
        return [EVENT.validate_json(line) for line in spool.read_bytes().splitlines()]


def send(broker: redis.Redis, attempt: Attempt, events: list[AnyEvent], first: int = 1) -> None:
    key = stream_key(attempt.node.slug, attempt.run_id)
    for seq, event in enumerate(events, first):
        broker.xadd(key, {"e": event.model_dump_json()}, id=f"{attempt.number}-{seq}")


def record(broker: redis.Redis, attempt: Attempt, upto: int, within_s: float = 20.0) -> None:
    recorder = Recorder(broker)
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        recorder.turn(block_ms=50)
        attempt.refresh_from_db()
        if attempt.stored_seq >= upto:
            return
    raise AssertionError(f"{attempt.stored_seq} of {upto} events stored")


def finish_run(run: Run, redis_url: str) -> Run:
    """Runs a placed or queued run to its end, on the one modelled node."""
    renew_lease(Node.objects.get(kind="modelled"), Heartbeat())
    place_runs()
    attempt = live_attempt(run)
    with redis.Redis.from_url(redis_url) as broker:
        events = events_of(attempt)
        send(broker, attempt, events)
        record(broker, attempt, len(events))
    run.refresh_from_db()
    return run


def text_of(response) -> str:
    """A page's text on one line."""
    return re.sub(r"\s+", " ", response.content.decode())


def figure(response, name: str) -> dict:
    """The figure that a page hands to its script under that id."""
    found = re.search(rf'<script id="{name}" type="application/json">(.*?)</script>', response.content.decode(), re.S)
    assert found, name
    return json.loads(found[1])
