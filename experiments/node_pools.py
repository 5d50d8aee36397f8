"""What a modelled node offers, as lines for a person: its chips with their counts, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.chip_facts import prefixed
from hardware.models import Node, NodeKind
from hardware.pools import ANY_CHIP
from runners.display import count


@dataclass(frozen=True)
class PoolRow:
    """`chip_id` is empty for every chip of the catalog that has no row of its own; `own` says that it is the node's."""

    chip_id: str
    count: int
    own: bool


@dataclass(frozen=True)
class LinkRow:
    between: tuple[str, str]
    bandwidth: str
    latency: str


def pools_of(node: Node) -> list[PoolRow]:
    """Its own chip first, those without a row of their own last; none of a measured node."""
    if node.kind != NodeKind.MODELLED:
        return []
    own = node.chip.chip_id if node.chip else ""
    rows = [PoolRow("" if chip == ANY_CHIP else chip, number, chip == own) for chip, number in node.offers().items()]
    return sorted(rows, key=lambda row: (not row.own, not row.chip_id, row.chip_id))


def links_of(node: Node) -> list[LinkRow]:
    return [
        LinkRow(
            (str(link["between"][0]), str(link["between"][1])),
            prefixed(float(link["bytes_per_s"]), "B/s"),
            prefixed(float(link["latency_s"]), "s"),
        )
        for link in node.links
    ]


def pools_told(node: Node) -> str:
    """In a few words, for a list; nothing where it offers its own chip alone."""
    others = [row for row in pools_of(node) if not row.own]
    if not others:
        return ""
    if any(not row.chip_id for row in others):
        return "and every chip of the catalog"
    named = ", ".join(f"{count(row.count)} × {row.chip_id}" for row in others[:3])
    return f"and {named}" + (f", {len(others) - 3} more" if len(others) > 3 else "")
