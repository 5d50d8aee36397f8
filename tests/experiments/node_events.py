"""A node's part in tests: a claimed attempt, its events, and sending them to its stream."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis
from control_plane import live_attempt, ready_node, submit, team

from experiments.models import Attempt, Run
from experiments.recorder import Recorder
from experiments.services import claim, place_runs
from hardware.broker import stream_key
from labsite.accounts.models import Project
from runners import events
from runners.events import AnyEvent, Report


def claimed(project: Project | None = None, **changes: object) -> Attempt:
    """A run that its node has claimed."""
    ready_node()
    experiment = submit(project or team(), **changes)
    place_runs()
    found = live_attempt(Run.objects.get(experiment=experiment, state="assigned"))
    claim(found.node, found.run_id, found.number)
    return found


def sample(t_s: float) -> events.Sample:
    return events.Sample(t_s=t_s, interval_s=0.25, output_tokens=8)


def request(index: int, **changes: object) -> events.RequestRecord:
    fields = {"request_id": f"r{index}", "phase": "measured", "scheduled_s": 1.0, "sent_s": 1.0, "finished_s": 2.0}
    return events.RequestRecord(index=index, status="ok", **(fields | changes))  # type: ignore[arg-type]


def step(index: int) -> events.Step:
    zeros = dict.fromkeys(
        ["prefill_tokens", "decode_tokens", "running", "waiting", "kv_used_blocks", "kv_cached_blocks",
         "kv_free_blocks", "kv_used_slots"], 0,
    )  # fmt: skip
    return events.Step(index=index, start_s=1.0, duration_s=0.01, **zeros)


def whole_attempt() -> list[AnyEvent]:
    """Seven events, one of each kind and a second status; the last is the report."""
    return [
        events.Status(phase="measuring", t_s=0.0, wall_s=1.0),
        sample(0.25),
        step(0),
        request(0),
        events.Log(wall_s=1.0, level="info", source="node", message="hello"),
        events.Status(phase="done", t_s=3.0, wall_s=4.0),
        Report(outcome="succeeded", window_start_s=0.0, window_end_s=3.0, events=7),
    ]


def send(broker: redis.Redis, attempt: Attempt, *what: AnyEvent | bytes, first: int = 1) -> None:
    """The events under the numbers from `first` on; bytes are sent as they are."""
    key = stream_key(attempt.node.slug, attempt.run_id)
    for seq, event in enumerate(what, first):
        text = event if isinstance(event, bytes) else event.model_dump_json()
        broker.xadd(key, {"e": text}, id=f"{attempt.number}-{seq}")


def until(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def turn_until(recorder: Recorder, attempt: Attempt, stored_seq: int) -> None:
    """Lets the recorder work until the attempt is stored as far as that."""

    def reached() -> bool:
        recorder.turn(block_ms=50)
        attempt.refresh_from_db()
        return attempt.stored_seq == stored_seq

    until(reached)
