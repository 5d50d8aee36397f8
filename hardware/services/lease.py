"""A node's lease and what its state says of it. All by the control plane's own clock, all by compare-and-set."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db import transaction
from django.utils import timezone

from hardware.messages import Heartbeat
from hardware.models import Node, NodeState


@transaction.atomic
def record_heartbeat(node: Node, body: Heartbeat, *, busy: bool) -> Node:
    """Renews the lease and keeps what the agent says of itself. A node that was lost or new is back.

    `busy` says whether an attempt is live on it. A node that was retired meanwhile stays so.
    """
    held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    fields: dict[str, Any] = {"last_seen_at": timezone.now(), "fault": body.fault}
    if body.agent_version:
        fields["agent_version"] = body.agent_version
    if body.facts is not None:
        fields["facts"] = body.facts
    if body.ceilings is not None:
        fields["ceilings"] = body.ceilings
    if body.models is not None:
        fields["models_held"] = [model.model_dump() for model in body.models]
    if body.engines is not None:
        fields["engines"] = [engine.model_dump() for engine in body.engines]
    if held.state in (NodeState.REGISTERED, NodeState.LOST):
        fields["state"] = live_state(draining=held.draining, busy=busy)
    if held.state != NodeState.RETIRED:
        Node.objects.filter(pk=held.pk).update(**fields)
        held.refresh_from_db()
    return held


def live_state(*, draining: bool, busy: bool) -> NodeState:
    if draining:
        return NodeState.DRAINING
    return NodeState.BUSY if busy else NodeState.ONLINE


def mark_busy(node_id: int) -> bool:
    """ONLINE → BUSY; False where the node is not free for work."""
    return bool(Node.objects.filter(pk=node_id, state=NodeState.ONLINE).update(state=NodeState.BUSY))


def mark_idle(node_id: int) -> bool:
    """BUSY → ONLINE. A draining, lost or retired node stays what it is."""
    return bool(Node.objects.filter(pk=node_id, state=NodeState.BUSY).update(state=NodeState.ONLINE))


def mark_lost(node_id: int, last_seen_at: dt.datetime) -> bool:
    """ONLINE, BUSY, DRAINING → LOST, unless it has spoken since `last_seen_at`."""
    live = (NodeState.ONLINE, NodeState.BUSY, NodeState.DRAINING)
    silent = Node.objects.filter(pk=node_id, state__in=live, last_seen_at=last_seen_at)
    return bool(silent.update(state=NodeState.LOST))
