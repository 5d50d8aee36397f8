"""Plays a measured node in the test's own process: claims, executes the run for real, and sends the events.

Only the agent around it is missing; what it found of its machine is made up.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import redis
from control_plane import live_attempt, ready_node
from modelled_node import record, send

from experiments.models import Run
from experiments.services import claim, place_runs
from experiments.services.node_lease import renew_lease
from hardware.messages import Heartbeat
from hardware.models import Node
from runners.events import EVENT

CHIP = "A test's CPU"
FACTS = {"chip": CHIP, "cpu": {"vendor": "none"}, "memory": {"usable_bytes": 8_000_000_000}}
CEILINGS = {
    "chip": CHIP,
    "measured_at": 1.75e9,
    "memory_bandwidth": {"by_threads": {"1": {"best": 1e10}, "2": {"best": 1.8e10}}},
    "matmul": {"by_precision": {"fp32": {"best": 1e11}, "bf16": {"best": 1e11}, "int8": {"best": 2e11}}},
}
SHAPE = {"layers": 2, "hidden_size": 128, "heads": 4, "kv_heads": 2, "vocab_size": 1000}
MEASURED = {
    "nodes": {"labels": {"kind": "measured"}},
    "model": {"shape": SHAPE},
    "engine": {"threads": 1},
    "workload": {
        "kind": "synthetic",
        "input_len": {"dist": "fixed", "tokens": 32},
        "output_len": {"dist": "fixed", "tokens": 8},
        "arrival": {"kind": "closed", "max_concurrency": 2},
        "num_requests": 8,
        "warmup": {"num_requests": 2},
    },
}


def measured_node(name: str = "measured") -> Node:
    node = ready_node(name, kind="measured")
    node.facts, node.ceilings = FACTS, CEILINGS
    node.save(update_fields=["facts", "ceilings"])
    return node


def measure_run(run: Run, redis_url: str, directory: Path) -> Run:
    """Executes a queued run on the one measured node, and records it."""
    renew_lease(Node.objects.get(kind="measured"), Heartbeat())
    place_runs()
    attempt = live_attempt(run)
    spec_file, spool = directory / f"{run.pk}.json", directory / f"{run.pk}-1.jsonl"
    spec_file.write_text(claim(attempt.node, run.pk, attempt.number).model_dump_json(), encoding="utf-8")
    command = [sys.executable, "-m", "runners.execute", "--spec", str(spec_file), "--spool", str(spool),
               "--models", str(directory / "models")]  # fmt: skip
    subprocess.run(command, check=True, timeout=120, start_new_session=True)
    events = [EVENT.validate_json(line) for line in spool.read_bytes().splitlines()]
    with redis.Redis.from_url(redis_url) as broker:
        send(broker, attempt, events)
        record(broker, attempt, len(events))
    run.refresh_from_db()
    return run
