"""Engines on one virtual clock: what begins, what ends, and in which order."""

from __future__ import annotations

import pytest
from local_node import CHIP, SHAPE

from runners.load.system import Ended
from runners.modelled.capacity import plan_kv_pool
from runners.modelled.clock import VirtualClock
from runners.modelled.cost import CostModel
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.fleet import Fleet, one_engine
from runners.runtime.engine import RequestRejected
from runners.runtime.sequence import SamplingParams
from runners.spec import EngineSpec

INTAKE_S = 2e-3


def make_server(intake_s: float) -> Fleet:
    spec, clock = EngineSpec(), VirtualClock()
    cost = CostModel(CHIP, SHAPE, "bf16")
    executor = ModelledExecutor(cost, plan_kv_pool(cost, 32, spec.max_num_seqs), 32, clock)
    return one_engine(build_engine(executor, spec), clock, intake_s)


def ask(server: Fleet, name: str) -> None:
    server.add(name, tuple(range(ord(name), ord(name) + 128)), SamplingParams(max_tokens=2))


def drive(server: Fleet) -> list[Ended]:
    """Lets all that was sent come to its end."""
    ended: list[Ended] = []
    server.start(float("inf"))
    while (event_s := server.next_event_s) is not None:
        server.clock.advance_to(event_s)
        ended += server.advance(event_s)
        server.start(float("inf"))
    return ended


def test_of_requests_sent_together_the_first_is_begun_alone_where_reading_takes_time() -> None:
    server = make_server(INTAKE_S)
    for name in ("a", "b", "c"):
        ask(server, name)
    first, second = (ended.steps[0] for ended in drive(server)[:2])
    assert first.prefill_tokens == 128 and first.start_s == pytest.approx(INTAKE_S)
    assert second.prefill_tokens == 256 and second.decode_tokens == 1


def test_where_reading_takes_none_they_are_begun_together() -> None:
    server = make_server(0.0)
    for name in ("a", "b", "c"):
        ask(server, name)
    assert drive(server)[0].steps[0].prefill_tokens == 3 * 128


def test_all_that_were_read_come_to_their_end() -> None:
    server = make_server(INTAKE_S)
    for name in ("a", "b", "c"):
        ask(server, name)
    assert sorted(token.request_id for ended in drive(server) for token in ended.finished) == ["a", "b", "c"]


@pytest.mark.parametrize("intake_s", [0.0, INTAKE_S])
def test_a_request_that_could_never_run_is_refused_when_it_is_sent(intake_s: float) -> None:
    server = make_server(intake_s)
    with pytest.raises(RequestRejected):
        server.add("long", tuple(range(128)), SamplingParams(max_tokens=10**6))
    assert drive(server) == []
