"""Which queued run goes to which free node. Pure: values in, pairs out; the caller writes them down.

Order: among experiments that have a run for the node, the one with the fewest runs under way, then the one served
longest ago, then the oldest. So one experiment alone is first in, first out, and a small one need not wait for the
end of a large one. Within an experiment a node gets its runs in the order of their positions, which is what
interleaves the settings. All runs of one repeat stay on the node that took its first one, so that settings are paired
on one node; other free nodes take other repeats. A modelled node takes part only where it is asked for.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ANY_CHIP = "any"
MODELLED = "modelled"
NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class Demand:
    """What a run asks of a node: its project's (or every project's), all the labels or one of the names, the chip.

    A modelled node is asked for by its chip, its name, or the label `kind: modelled`; never by `chip: any` alone.
    """

    project_id: int
    chip_id: str = ANY_CHIP
    labels: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()

    @property
    def wants_modelled(self) -> bool:
        return self.chip_id != ANY_CHIP or bool(self.names) or ("kind", MODELLED) in self.labels


Repeat = tuple[int, int, str]
"""Runs that belong on one node: (experiment, repeat, chip)."""


@dataclass(frozen=True)
class QueuedRun:
    run_id: int
    experiment_id: int
    position: int
    repeat: int
    demand: Demand

    @property
    def group(self) -> Repeat:
        return self.experiment_id, self.repeat, self.demand.chip_id


@dataclass(frozen=True)
class FreeNode:
    """A node that can take a run now, or (for `matches`) could some day. `labels` has `kind`, `chip`, `name` in it."""

    node_id: int
    project_id: int | None
    chip_id: str
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """How an experiment has been served so far."""

    under_way: int = 0
    last_assigned_at: dt.datetime = NEVER


def matches(demand: Demand, node: FreeNode) -> bool:
    """Whether the node may ever run what this run asks for."""
    if node.project_id not in (None, demand.project_id):
        return False
    if demand.chip_id not in (ANY_CHIP, node.chip_id):
        return False
    if node.labels.get("kind") == MODELLED and not demand.wants_modelled:
        return False
    if demand.names and node.labels.get("name") not in demand.names:
        return False
    return all(node.labels.get(key) == value for key, value in demand.labels)


def assign(
    queued: Sequence[QueuedRun],
    nodes: Sequence[FreeNode],
    served: Mapping[int, Service] | None = None,
    held: Mapping[Repeat, int] | None = None,
) -> list[tuple[int, int]]:
    """Pairs (run_id, node_id), each run and each node at most once. `held` says which live node has which repeat."""
    served, holder = served or {}, dict(held or {})
    lines: dict[int, list[QueuedRun]] = {}
    for run in sorted(queued, key=lambda run: (run.experiment_id, run.position, run.run_id)):
        lines.setdefault(run.experiment_id, []).append(run)
    given: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for node in nodes:
        chosen = _next_run(node, lines, served, given, holder)
        if chosen is None:
            continue
        holder[chosen.group] = node.node_id
        lines[chosen.experiment_id].remove(chosen)
        given[chosen.experiment_id] = given.get(chosen.experiment_id, 0) + 1
        pairs.append((chosen.run_id, node.node_id))
    return pairs


def _next_run(
    node: FreeNode,
    lines: dict[int, list[QueuedRun]],
    served: Mapping[int, Service],
    given: dict[int, int],
    holder: dict[Repeat, int],
) -> QueuedRun | None:
    def fits(run: QueuedRun) -> bool:
        return matches(run.demand, node) and holder.get(run.group, node.node_id) == node.node_id

    firsts = [next(filter(fits, line), None) for line in lines.values()]

    def turn(run: QueuedRun) -> tuple[int, dt.datetime, int]:
        service = served.get(run.experiment_id, Service())
        under_way = service.under_way + given.get(run.experiment_id, 0)
        return under_way, service.last_assigned_at, run.experiment_id

    return min((run for run in firsts if run is not None), key=turn, default=None)
