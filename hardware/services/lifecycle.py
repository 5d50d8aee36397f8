"""What an operator does to a node: drain, resume, retire, rotate. Its runs are not touched here: the reaper sees to
those of a retired node. Each is on record as done `by` a person (None: by the lab itself)."""

from __future__ import annotations

import logging

import redis
from django.db import transaction
from django.utils import timezone

from hardware import broker
from hardware.errors import HardwareError
from hardware.models import JoinToken, Node, NodeState
from hardware.services.lease import live_state
from hardware.services.registration import issue_join_token
from labsite.accounts.audit import record
from labsite.accounts.permissions import Person

log = logging.getLogger(__name__)


@transaction.atomic
def drain(node: Node, *, by: Person | None = None) -> None:
    """The node finishes its run and takes no other. Raises HardwareError where it is retired."""
    held = _held(node)
    held.draining = True
    if held.state in (NodeState.ONLINE, NodeState.BUSY):
        held.state = NodeState.DRAINING
    held.save(update_fields=["draining", "state"])
    record(by, "node.drain", held)


@transaction.atomic
def resume(node: Node, *, busy: bool, by: Person | None = None) -> None:
    """Ends a drain. `busy` says whether an attempt is live on the node. Raises HardwareError where it is retired."""
    held = _held(node)
    held.draining = False
    if held.state == NodeState.DRAINING:
        held.state = live_state(draining=False, busy=busy)
    held.save(update_fields=["draining", "state"])
    record(by, "node.resume", held)


def retire(node: Node, *, by: Person | None = None) -> None:
    """For good: its credentials and join tokens are void. Its results stay. Retiring twice changes nothing."""
    with transaction.atomic():
        serving = Node.objects.filter(pk=node.pk).exclude(state=NodeState.RETIRED)
        if serving.update(state=NodeState.RETIRED, draining=False):
            record(by, "node.retire", node)
        _revoke(node)
    _forget_broker_user(node)


def rotate(node: Node, *, by: Person | None = None) -> str:
    """Voids the agent's credentials, so that it stops; the token returned lets an agent join again.

    Raises HardwareError where the node is retired.
    """
    with transaction.atomic():
        _held(node)
        _revoke(node)
        record(by, "node.rotate", node)
        token = issue_join_token(node, by=by)
    _forget_broker_user(node)
    return token


def _held(node: Node) -> Node:
    held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    if held.state == NodeState.RETIRED:
        raise HardwareError("node", f"{held.slug} is retired, and that is for good", "a node that is not retired")
    return held


def _revoke(node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(api_digest="", broker_digest="")
    now = timezone.now()
    JoinToken.objects.filter(node=node, used_at=None, expires_at__gt=now).update(expires_at=now)


def _forget_broker_user(node: Node) -> None:
    """After the commit. If the broker is down the reaper's next ensure_broker_users removes the user."""
    try:
        broker.delete_users([broker.username(node.slug)])
    except redis.RedisError as error:
        log.warning("broker user of node %s is not removed yet: %s", node.slug, error)
