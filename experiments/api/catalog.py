"""REST for what experiments run on: nodes and chips. Read only; nodes change in the admin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from django.db.models import Q
from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from experiments import selectors
from experiments.api.auth import person
from experiments.api.listing import Text, given
from experiments.api.paging import Page, PageQuery, read_page
from experiments.api.schemas import READ_ERRORS, ChipOut, ChipPage, NodeOut, NodePage
from hardware.models import Chip, Node, NodeKind, NodeState
from hardware.selectors import current_chips, nodes_visible_to
from labsite.accounts.models import User
from labsite.error_body import ErrorBody

router = Router(tags=["catalog"])

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class NodeQuery(PageQuery):
    sort: Literal["name", "-name", "last_seen_at", "-last_seen_at", "usd_per_hour", "-usd_per_hour"] = "name"
    search: Text | None = Field(default=None, description="A part of the name or slug.")
    state: NodeState | None = None
    kind: NodeKind | None = None
    chip: Text | None = Field(default=None, description="Chip id.")
    project: Text | None = Field(default=None, description="Slug; only the nodes of that project alone.")


class ChipQuery(PageQuery):
    sort: Literal["name", "-name", "chip_id", "-chip_id", "vendor", "-vendor"] = "name"
    search: Text | None = Field(default=None, description="A part of the name or chip id.")
    vendor: Text | None = None
    kind: Text | None = None


NODE_COLUMNS = {"name": "name", "last_seen_at": "last_seen_at", "usd_per_hour": "usd_per_hour"}
CHIP_COLUMNS = {"name": "name", "chip_id": "chip_id", "vendor": "vendor"}


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
        "chip__chip_id": asked.chip,
        "project__slug": asked.project,
    }
    rows = nodes_visible_to(user).filter(**given(conditions))
    if asked.search:
        rows = rows.filter(Q(name__icontains=asked.search) | Q(slug__icontains=asked.search))
    return read_page(rows, NODE_COLUMNS, asked)


@router.get("/nodes/{slug}", response={200: NodeOut, READ_ERRORS: ErrorBody}, summary="One node")
def read_node(request: HttpRequest, slug: Name) -> NodeOut:
    user = person(request)
    return _nodes_out([nodes_visible_to(user).get(slug=slug)], user)[0]


@router.get("/chips", response={200: ChipPage, READ_ERRORS: ErrorBody}, summary="The chip catalog")
def list_chips(request: HttpRequest, asked: Query[ChipQuery]) -> ChipPage:
    rows = current_chips().filter(**given({"vendor": asked.vendor, "kind": asked.kind}))
    if asked.search:
        rows = rows.filter(Q(name__icontains=asked.search) | Q(chip_id__icontains=asked.search))
    page = read_page(rows, CHIP_COLUMNS, asked)
    return ChipPage(items=[_chip_out(chip) for chip in page.items], next=page.next)


@router.get("/chips/{chip_id}", response={200: ChipOut, READ_ERRORS: ErrorBody}, summary="One chip, current version")
def read_chip(request: HttpRequest, chip_id: Name) -> ChipOut:
    return _chip_out(current_chips().get(chip_id=chip_id))


def _nodes_out(nodes: Iterable[Node], user: User) -> list[NodeOut]:
    found = list(nodes)
    runs = selectors.current_runs([node.pk for node in found], user)
    return [
        NodeOut(
            slug=node.slug,
            name=node.name,
            kind=node.kind,
            state=node.state,
            project=node.project.slug if node.project else None,
            chip=node.chip.chip_id if node.chip else None,
            chip_name=node.chip.name if node.chip else node.facts.get("chip"),
            labels=node.all_labels(),
            usd_per_hour=node.usd_per_hour,
            last_seen_at=node.last_seen_at,
            current_run=runs.get(node.pk),
            facts=node.facts,
            ceilings=node.ceilings,
            models=node.models_held,
            agent_version=node.agent_version,
            fault=node.fault,
        )
        for node in found
    ]


def _chip_out(chip: Chip) -> ChipOut:
    return ChipOut(
        chip_id=chip.chip_id,
        version=chip.version,
        name=chip.name,
        vendor=chip.vendor,
        kind=chip.kind,
        record=chip.record,
    )
