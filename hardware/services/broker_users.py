"""Keeps the broker's users equal to the nodes that have credentials."""

from __future__ import annotations

from hardware import broker
from hardware.models import Node, NodeState


def ensure_broker_users() -> int:
    """Heals a broker that lost or kept users it should not; idempotent. Says how many it changed.

    Raises redis.RedisError.
    """
    nodes = Node.objects.exclude(state=NodeState.RETIRED).exclude(broker_digest="")
    return broker.sync_users(broker_user(node) for node in nodes)


def broker_user(node: Node) -> broker.BrokerUser:
    return broker.BrokerUser(node.broker_username, node.broker_digest, broker.node_prefix(node.slug))
