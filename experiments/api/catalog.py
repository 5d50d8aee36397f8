"""REST for the nodes that experiments run on. Read only; nodes change in the admin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Literal

from django.db.models import Q
from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from experiments import selectors
from experiments.api.auth import person
from experiments.api.listing import Text, given
from experiments.api.paging import Page, PageQuery, read_page
from experiments.api.schemas import READ_ERRORS, EngineOut, LinkOut, NodeOut, NodePage, NoiseOut, PoolOut
from experiments.node_noise import noise_of
from hardware.models import Node, NodeKind, NodeState
from hardware.selectors import nodes_visible_to, offers_chip
from labsite.accounts.models import User
from labsite.error_body import ErrorBody

router = Router(tags=["catalog"])

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class NodeQuery(PageQuery):
    sort: Literal["name", "-name", "last_seen_at", "-last_seen_at", "usd_per_hour", "-usd_per_hour"] = "name"
    search: Text | None = Field(default=None, description="A part of the name or slug.")
    state: NodeState | None = None
    kind: NodeKind | None = None
    chip: Text | None = Field(default=None, description="Chip id; that it has, or offers if it is modelled.")
    project: Text | None = Field(default=None, description="Slug; only the nodes of that project alone.")


NODE_COLUMNS = {"name": "name", "last_seen_at": "last_seen_at", "usd_per_hour": "usd_per_hour"}


@router.get("/nodes", response={200: NodePage, READ_ERRORS: ErrorBody}, summary="Nodes of your projects")
def list_nodes(request: HttpRequest, asked: Query[NodeQuery]) -> NodePage:
    user = person(request)
    page = find_nodes(user, asked)
    return NodePage(items=_nodes_out(page.items, user), next=page.next)


def find_nodes(user: User, asked: NodeQuery) -> Page[Node]:
    """A page of the nodes that the user may see. Raises BadParameter."""
    conditions = {
        "state": asked.state,
        "kind": asked.kind,
        "project__slug": asked.project,
    }
    rows = nodes_visible_to(user).filter(**given(conditions))
    if asked.chip:
        rows = rows.filter(offers_chip(asked.chip))
    if asked.search:
        rows = rows.filter(Q(name__icontains=asked.search) | Q(slug__icontains=asked.search))
    return read_page(rows, NODE_COLUMNS, asked)


@router.get("/nodes/{slug}", response={200: NodeOut, READ_ERRORS: ErrorBody}, summary="One node")
def read_node(request: HttpRequest, slug: Name) -> NodeOut:
    user = person(request)
    return _nodes_out([nodes_visible_to(user).get(slug=slug)], user)[0]


def pools_of(node: Node) -> list[PoolOut]:
    if node.kind != NodeKind.MODELLED:
        return []
    return [PoolOut(chip=chip_id, count=count) for chip_id, count in node.offers().items()]


def _nodes_out(nodes: Iterable[Node], user: User) -> list[NodeOut]:
    found = list(nodes)
    runs = selectors.current_runs([node.pk for node in found], user)
    noise = noise_of([node.pk for node in found])
    return [
        NodeOut(
            slug=node.slug,
            name=node.name,
            kind=node.kind,
            state=node.state,
            project=node.project.slug if node.project else None,
            chip=node.chip.chip_id if node.chip else None,
            chip_name=node.chip.name if node.chip else node.facts.get("chip"),
            pools=pools_of(node),
            links=[LinkOut(**link) for link in node.links],
            labels=node.all_labels(),
            usd_per_hour=node.usd_per_hour,
            last_seen_at=node.last_seen_at,
            current_run=runs.get(node.pk),
            facts=node.facts,
            ceilings=node.ceilings,
            models=node.models_held,
            engines=[EngineOut(**engine) for engine in node.engines],
            agent_version=node.agent_version,
            noise={name: NoiseOut(**asdict(one)) for name, one in noise.get(node.pk, {}).items()},
            fault=node.fault,
        )
        for node in found
    ]
