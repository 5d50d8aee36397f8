"""Reads of chips and nodes."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from hardware.models import Chip, Node, NodeState
from hardware.pools import ANY_CHIP
from labsite.accounts.models import Role
from labsite.accounts.permissions import Person, projects_of


def nodes_visible_to(user: Person) -> QuerySet[Node]:
    """The nodes of the user's projects and those that serve every project."""
    if not user.is_authenticated:
        return Node.objects.none()
    own = projects_of(user).values("pk")
    return Node.objects.select_related("chip", "project").filter(Q(project=None) | Q(project__in=own))


def nodes_operated_by(user: Person) -> QuerySet[Node]:
    """The nodes of projects in which the user is an operator; for a superuser every node."""
    nodes = Node.objects.select_related("chip", "project")
    if user.is_superuser and user.is_active:
        return nodes
    return nodes.filter(project__in=projects_of(user, Role.OPERATOR).values("pk"))


def nodes_serving(project_id: int) -> QuerySet[Node]:
    """The nodes that may run this project's experiments, now or later."""
    serving = Node.objects.select_related("chip").exclude(state=NodeState.RETIRED)
    return serving.filter(Q(project=None) | Q(project=project_id))


def offers_chip(chip_id: str) -> Q:
    """Of nodes: that have the chip, or offer it among their pools."""
    found = Q(chip__chip_id=chip_id) | Q(pools__contains=[{"chip": chip_id}])
    of_any = Q(pools__contains=[{"chip": ANY_CHIP}])
    return found | of_any if current_chips().filter(chip_id=chip_id).exists() else found


def current_chips() -> QuerySet[Chip]:
    return Chip.objects.filter(current=True)


def live_run_id(node: Node) -> int | None:
    """The run whose attempt is live on the node. Attempts are of `experiments`, which hangs them on its nodes."""
    live = node.attempts.filter(state__in=["assigned", "running"])
    return live.values_list("run_id", flat=True).first()
