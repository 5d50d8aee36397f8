"""A node's lease: what its heartbeat changes, and how drain, resume and loss go together."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from hardware.errors import HardwareError
from hardware.messages import Heartbeat, HeldModel
from hardware.models import Node
from hardware.services import drain, mark_busy, mark_idle, mark_lost, record_heartbeat, register_node, resume, retire

pytestmark = pytest.mark.django_db


@pytest.fixture
def node() -> Node:
    return register_node("alpha", kind="measured")


def beat(node: Node, *, busy: bool = False, **said: object) -> Node:
    return record_heartbeat(node, Heartbeat.model_validate(said), busy=busy)


def lose(node: Node) -> None:
    node.refresh_from_db()
    assert node.last_seen_at is not None
    assert mark_lost(node.pk, node.last_seen_at)


def state(node: Node) -> str:
    return Node.objects.get(pk=node.pk).state


def test_the_first_heartbeat_brings_a_node_online(node: Node) -> None:
    assert beat(node).state == "online"
    assert node.last_seen_at is None
    seen = Node.objects.get().last_seen_at
    assert seen is not None and timezone.now() - seen < dt.timedelta(seconds=30)


def test_it_keeps_what_the_agent_says_until_it_says_otherwise(node: Node) -> None:
    model = HeldModel(name="m", sha256="0" * 64)
    beat(node, facts={"chip": "a"}, ceilings={"memory": 1}, models=[model.model_dump()], agent_version="2")
    held = beat(node)
    assert (held.facts, held.ceilings, held.agent_version) == ({"chip": "a"}, {"memory": 1}, "2")
    assert held.models_held == [{"name": "m", "sha256": "0" * 64}]
    assert beat(node, facts={}).facts == {}


def test_a_lost_node_that_speaks_again_is_online_or_busy(node: Node) -> None:
    beat(node)
    lose(node)
    assert beat(node).state == "online"
    lose(node)
    assert beat(node, busy=True).state == "busy"


def test_busy_and_idle_are_two_sides_of_an_online_node(node: Node) -> None:
    assert not mark_busy(node.pk)
    beat(node)
    assert mark_busy(node.pk) and state(node) == "busy"
    assert not mark_busy(node.pk)
    assert mark_idle(node.pk) and state(node) == "online"
    assert not mark_idle(node.pk)


def test_a_node_that_spoke_meanwhile_is_not_lost(node: Node) -> None:
    beat(node)
    node.refresh_from_db()
    before = node.last_seen_at
    assert before is not None
    beat(node)
    assert not mark_lost(node.pk, before)
    assert state(node) == "online"


def test_a_drain_outlives_a_loss_and_ends_with_resume(node: Node) -> None:
    beat(node)
    drain(node)
    assert state(node) == "draining"
    assert not mark_busy(node.pk)
    lose(node)
    assert beat(node).state == "draining"
    resume(node, busy=True)
    assert state(node) == "busy"


def test_a_node_may_be_drained_before_it_has_joined(node: Node) -> None:
    drain(node)
    assert state(node) == "registered"
    assert beat(node).state == "draining"
    resume(node, busy=False)
    assert state(node) == "online"


def test_a_retired_node_stays_so_whatever_its_agent_says(node: Node) -> None:
    beat(node)
    retire(node)
    assert beat(node, facts={"late": True}).state == "retired"
    assert Node.objects.get().facts == {}
    for act in (drain, lambda node: resume(node, busy=False)):
        with pytest.raises(HardwareError, match="retired"):
            act(node)
    retire(node)
    assert state(node) == "retired"


@pytest.mark.parametrize(
    ("silent_s", "blind_s", "lost"), [(0, 0, False), (25, 0, False), (25.5, 0, True), (100, 80, False), (100, 70, True)]
)
def test_a_node_is_lost_after_25_s_of_watched_silence(node: Node, silent_s: float, blind_s: float, lost: bool) -> None:
    now = timezone.now()
    node.last_seen_at = now - dt.timedelta(seconds=silent_s)
    assert node.is_lost(now, blind_s) is lost


def test_a_node_that_never_spoke_is_not_lost(node: Node) -> None:
    assert not node.is_lost(timezone.now())
