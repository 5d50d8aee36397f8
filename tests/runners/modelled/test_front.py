"""A server's front: it reads requests one at a time, and what it takes for one is found in a measured run."""

from __future__ import annotations

import pytest
from local_node import CHIP, SHAPE

from runners.events import RequestRecord
from runners.modelled.capacity import plan_kv_pool
from runners.modelled.clock import VirtualClock
from runners.modelled.cost import CostModel
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.front import FrontedEngine, intake_of
from runners.runtime.engine import RequestRejected
from runners.runtime.sequence import SamplingParams
from runners.spec import EngineSpec

INTAKE_S = 2e-3


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def server(clock: VirtualClock) -> FrontedEngine:
    spec = EngineSpec()
    cost = CostModel(CHIP, SHAPE, "bf16")
    executor = ModelledExecutor(cost, plan_kv_pool(cost, 32, spec.max_num_seqs), 32, clock)
    return FrontedEngine(build_engine(executor, spec), clock, INTAKE_S)


def ask(server: FrontedEngine, name: str) -> None:
    server.add(name, tuple(range(ord(name), ord(name) + 128)), SamplingParams(max_tokens=2))


def test_of_requests_sent_together_the_first_is_begun_alone(server: FrontedEngine, clock: VirtualClock) -> None:
    for name in ("a", "b", "c"):
        ask(server, name)
    first, second = server.step(), server.step()
    assert first is not None and second is not None
    assert first.step.prefill_tokens == 128 and first.step.start_s == pytest.approx(INTAKE_S)
    assert second.step.prefill_tokens == 256 and second.step.decode_tokens == 1


def test_all_that_were_read_come_to_their_end(server: FrontedEngine) -> None:
    for name in ("a", "b", "c"):
        ask(server, name)
    finished = []
    while server.has_work:
        output = server.step()
        finished += [token.request_id for token in output.tokens if token.finish_reason] if output else []
    assert sorted(finished) == ["a", "b", "c"]


def test_a_request_that_could_never_run_is_refused_when_it_is_sent(server: FrontedEngine) -> None:
    with pytest.raises(RequestRejected):
        server.add("long", tuple(range(128)), SamplingParams(max_tokens=10**6))
    assert not server.has_work


def record(sent_s: float, queued_s: float) -> RequestRecord:
    return RequestRecord(
        index=0, request_id="r", phase="measured", scheduled_s=sent_s, sent_s=sent_s, queued_s=queued_s,
        prefill_done_s=queued_s + 1.0, first_token_s=queued_s + 1.001, status="ok",
    )  # fmt: skip


def test_intake_is_what_no_step_held_up() -> None:
    waited = [record(float(i), i + 0.5) for i in range(18)]
    undisturbed = [record(float(i), i + 0.002) for i in range(18, 20)]
    assert intake_of([*waited, *undisturbed]) == pytest.approx(0.003, abs=1e-4)
    assert intake_of([]) == 0.0
