"""How a machine becomes a node: an operator registers it, gets a join token, and its agent joins with it once."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import secrets
from typing import Any

import redis
from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from hardware import broker
from hardware.errors import BrokerUnavailable, HardwareError, JoinRefused, UnknownNodeToken
from hardware.labels import check_labels
from hardware.messages import JoinAnswer, JoinRequest
from hardware.models import Chip, JoinToken, Node, NodeKind, NodeState
from hardware.pools import check_links, check_pools, offers_of
from hardware.services.broker_users import broker_user
from labsite.accounts.audit import record
from labsite.accounts.models import Project
from labsite.accounts.permissions import Person
from runners.plain_text import NAME_RULE, is_name

JOIN_TOKEN_LIFE = dt.timedelta(minutes=15)


def digest_of(plain: str) -> str:
    """Enough for tokens of 256 random bits: there is nothing to guess."""
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def register_node(
    name: str,
    *,
    kind: str,
    project: Project | None = None,
    chip_id: str | None = None,
    labels: dict[str, str] | None = None,
    usd_per_hour: float | None = None,
    pools: list[dict[str, Any]] | None = None,
    links: list[dict[str, Any]] | None = None,
) -> Node:
    """A node that no agent has joined yet. Raises HardwareError."""
    if kind not in NodeKind.values:
        raise HardwareError("kind", f"{kind!r} is no kind of node", list(NodeKind.values))
    if usd_per_hour is not None and not (math.isfinite(usd_per_hour) and usd_per_hour >= 0):
        raise HardwareError("usd_per_hour", f"{usd_per_hour} is no price", "0 or more")
    if kind == NodeKind.MEASURED and (pools or links):
        field = "pools" if pools else "links"
        raise HardwareError(field, "a measured node has the chip that is in it, and offers no other", "none")
    chip = _chip(kind, chip_id)
    checked = check_pools(pools, _chip_ids()) if pools else []
    return Node.objects.create(
        name=name,
        slug=free_slug(name),
        kind=kind,
        project=project,
        chip=chip,
        pools=checked,
        links=check_links(links or [], offers_of(chip.chip_id if chip else "", checked), _chip_ids()) if links else [],
        labels=check_labels(labels or {}),
        usd_per_hour=usd_per_hour,
    )


def free_slug(name: str) -> str:
    """The slug of a name, if it is one and free. Raises HardwareError."""
    if not is_name(name):
        raise HardwareError("name", f"{name!r:.60} is no name that can be read", NAME_RULE)
    slug = slugify(name)[:60]
    if not slug:
        raise HardwareError("name", f"{name!r} has no letter or digit to name the node by", "letters and digits")
    if Node.objects.filter(slug=slug).exists() or Node.objects.filter(name=name).exists():
        raise HardwareError("name", f"there is a node {slug!r} already", "a name that no node has")
    return slug


def _chip(kind: str, chip_id: str | None) -> Chip | None:
    if chip_id is None:
        if kind == NodeKind.MODELLED:
            raise HardwareError("chip", "a modelled node needs the chip that it models", _chip_ids())
        return None
    chip = Chip.objects.filter(chip_id=chip_id, current=True).first()
    if chip is None:
        raise HardwareError("chip", f"no chip {chip_id!r} in the catalog", _chip_ids())
    return chip


def _chip_ids() -> list[str]:
    return list(Chip.objects.filter(current=True).order_by("chip_id").values_list("chip_id", flat=True))


@transaction.atomic
def issue_join_token(node: Node, *, by: Person | None = None) -> str:
    """The plain token, shown once: opens one join within JOIN_TOKEN_LIFE. Older unused ones are void from now on."""
    now = timezone.now()
    held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    if held.state == NodeState.RETIRED:
        raise HardwareError("node", f"{node.slug} is retired", "a node that is not")
    JoinToken.objects.filter(node=held, used_at=None, expires_at__gt=now).update(expires_at=now)
    plain = "join_" + secrets.token_urlsafe(32)
    JoinToken.objects.create(node=held, digest=digest_of(plain), expires_at=now + JOIN_TOKEN_LIFE)
    record(by, "node.issue_join_token", held)
    return plain


@transaction.atomic
def join(request: JoinRequest) -> JoinAnswer:
    """Gives the agent credentials of its own; those of an earlier join end. Raises JoinRefused, BrokerUnavailable.

    The broker's user is made inside the transaction: if the broker is down, the token stays good for another try.
    """
    node = _use_token(request.token)
    api_token, password = "node_" + secrets.token_urlsafe(32), broker.new_password()
    node.api_digest = digest_of(api_token)
    node.broker_username = broker.username(node.slug)
    node.broker_digest = digest_of(password)
    node.facts = request.facts
    node.agent_version = request.agent_version
    node.fault = ""
    node.save(update_fields=["api_digest", "broker_username", "broker_digest", "facts", "agent_version", "fault"])
    record(None, "node.join", node, agent_version=request.agent_version)
    try:
        broker.set_user(broker_user(node))
    except redis.RedisError as error:
        raise BrokerUnavailable(str(error)) from error
    return JoinAnswer(
        node=node.slug,
        name=node.name,
        kind=node.kind,
        chip=node.chip.record if node.chip else None,
        api_token=api_token,
        broker_url=broker.node_broker_url(node.broker_username, password),
        key_prefix=broker.node_prefix(node.slug),
        queue=broker.QUEUE,
    )


def _use_token(plain: str) -> Node:
    """The token's node, locked. Compare-and-set on `used_at`: of two joins with one token, one gets here."""
    now = timezone.now()
    fresh = JoinToken.objects.filter(digest=digest_of(plain), used_at=None, expires_at__gt=now)
    if fresh.update(used_at=now) != 1:
        raise JoinRefused
    node = (
        Node.objects.select_for_update(no_key=True, of=("self",))
        .select_related("chip")
        .exclude(state=NodeState.RETIRED)
        .filter(join_tokens__digest=digest_of(plain))
        .first()
    )
    if node is None:
        raise JoinRefused
    return node


def authenticate_node(plain: str) -> Node:
    """The node whose agent holds this token. Raises UnknownNodeToken."""
    node = (
        Node.objects.select_related("chip", "project")
        .exclude(state=NodeState.RETIRED)
        .filter(api_digest=digest_of(plain))
        .first()
        if plain
        else None
    )
    if node is None:
        raise UnknownNodeToken
    return node
