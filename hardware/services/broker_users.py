"""Keeps the broker's users equal to the nodes that have credentials."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction

from hardware import broker
from hardware.models import Node, NodeState


def ensure_broker_users() -> int:
    """Heals a broker that lost or kept users it should not; idempotent. Says how many it changed.

    Where something looks wrong it looks again with the nodes locked: a join that is under way has made its user
    already, and has not yet committed the node's new digest. Raises redis.RedisError.
    """
    nodes = Node.objects.exclude(state=NodeState.RETIRED)
    if not broker.find_faults(_users(nodes)):
        return 0
    with transaction.atomic():
        return broker.sync_users(_users(nodes.select_for_update(no_key=True).order_by("pk")))


def broker_user(node: Node) -> broker.BrokerUser:
    return broker.BrokerUser(node.broker_username, node.broker_digest, broker.node_prefix(node.slug))


def _users(nodes: Iterable[Node]) -> list[broker.BrokerUser]:
    return [broker_user(node) for node in nodes if node.broker_digest]
