"""How many events a second the recorder moves from streams into the record tables. Run by hand:

python -m pytest tests/bench/bench_recorder.py -s -m bench
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import redis

from experiments.models import Attempt, RequestRecord, StepRecord
from experiments.recorder import Recorder
from hardware.broker import stream_key
from runners.events import AnyEvent

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
from node_events import claimed, request, sample, step

pytestmark = [pytest.mark.bench, pytest.mark.django_db(transaction=True)]

EVENTS = 100_000
LEAST_PER_S = 10_000


def event(seq: int) -> AnyEvent:
    """A run's mixture: mostly steps, a request with its token times every 50, a sample every 20."""
    if seq % 50 == 0:
        times = [0.01 * token for token in range(64)]
        return request(seq, token_times_s=times, token_counts=[1] * 64)
    return sample(float(seq)) if seq % 20 == 0 else step(seq)


def test_ten_thousand_events_a_second_are_stored(redis_url: str) -> None:
    attempt = claimed()
    with redis.Redis.from_url(redis_url) as broker:
        fill(broker, attempt)
        recorder = Recorder(broker)
        started = time.perf_counter()
        stored = 0
        while stored < EVENTS:
            stored += recorder.turn(block_ms=10)
        took_s = time.perf_counter() - started
    print(f"\n{EVENTS} events in {took_s:.2f} s: {EVENTS / took_s:,.0f} events/s")
    kept = StepRecord.objects.filter(run_id=attempt.run_id), RequestRecord.objects.filter(run_id=attempt.run_id)
    assert [rows.count() for rows in kept] == [EVENTS - EVENTS // 20 - EVENTS // 50 + EVENTS // 100, EVENTS // 50]
    assert EVENTS / took_s > LEAST_PER_S


def fill(broker: redis.Redis, attempt: Attempt) -> None:
    key = stream_key(attempt.node.slug, attempt.run_id)
    for first in range(1, EVENTS + 1, 5_000):
        with broker.pipeline(transaction=False) as pipe:
            for seq in range(first, first + 5_000):
                pipe.xadd(key, {"e": event(seq).model_dump_json()}, id=f"{attempt.number}-{seq}")
            pipe.execute()
