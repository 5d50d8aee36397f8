"""Which queued run goes to which free node. Pure: values in, pairs out; the caller writes them down.

Order of runs: the experiment of the highest priority; among equals the one with the fewest runs under way, then the one
served longest ago, then the oldest. So one experiment alone is first in, first out, and a small one need not wait for
the end of a large one. Within an experiment runs go in the order of their positions, which is what interleaves the
settings. All runs of one repeat stay on the node that took its first one, so that settings are paired on one node;
other free nodes take other repeats.

Choice of the node: of the free ones that match, one that holds the run's model, else the one idle for longest, which
then fetches it; no run waits for a holder. A modelled node takes part only where it is asked for, and no node takes
what its memory can't hold, more chips than it offers, or an engine that its operator doesn't list.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from experiments.engine_offers import ANY_ENGINE, EngineDemand, EngineOffer, has_engine
from hardware.pools import count_offered

ANY_CHIP = "any"
MODELLED = "modelled"
NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class Demand:
    """What a run asks of a node: its project's (or every project's), all the labels or one of the names, the chips, and
    at least that much memory.

    `chips` are the ids that its placement names, all of which the node must offer; none means the node's own, whatever
    it is. `counts` says how many of which it takes; where no chip is named, a modelled node's own must be among them.

    A modelled node is asked for by chips, by its name, or by the label `kind: modelled`; by nothing else.
    """

    project_id: int
    chips: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    memory_bytes: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    engine: EngineDemand = ANY_ENGINE

    @property
    def wants_modelled(self) -> bool:
        return bool(self.chips or self.names) or ("kind", MODELLED) in self.labels


Repeat = tuple[int, int, str]
"""Runs that belong on one node: (experiment, repeat, chips). Those of other chips may be on another."""


def group_of(chips: tuple[str, ...]) -> str:
    return "+".join(chips) or ANY_CHIP


@dataclass(frozen=True)
class QueuedRun:
    """`model` is the hash of the model that the run needs."""

    run_id: int
    experiment_id: int
    position: int
    repeat: int
    demand: Demand
    priority: int = 0
    model: str = ""

    @property
    def group(self) -> Repeat:
        return self.experiment_id, self.repeat, group_of(self.demand.chips)


@dataclass(frozen=True)
class FreeNode:
    """A node that can take a run now, or (for `matches`) could some day. `labels` has `kind`, `chip`, `name` in it;
    `offers` says how many chips it has of each id; `memory_bytes` is None where it isn't known, or where the chips that
    a placement takes decide it; `models` are the hashes of those it holds."""

    node_id: int
    project_id: int | None
    chip_id: str
    labels: dict[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    models: frozenset[str] = frozenset()
    offers: Mapping[str, int] = field(default_factory=dict)
    engines: tuple[EngineOffer, ...] = ()

    @property
    def is_modelled(self) -> bool:
        return self.labels.get("kind") == MODELLED


@dataclass(frozen=True)
class Service:
    """How an experiment has been served so far."""

    under_way: int = 0
    last_assigned_at: dt.datetime = NEVER


def matches(demand: Demand, node: FreeNode) -> bool:
    """Whether the node may ever run what this run asks for."""
    return (
        is_meant(demand, node)
        and has_chips(demand, node)
        and has_memory(demand, node)
        and has_engine(demand.engine, node.engines)
    )


def is_meant(demand: Demand, node: FreeNode) -> bool:
    """Whether the document means such a node, if it has the chips and the memory."""
    if node.project_id not in (None, demand.project_id):
        return False
    if node.is_modelled and not demand.wants_modelled:
        return False
    if demand.names and node.labels.get("name") not in demand.names:
        return False
    return all(node.labels.get(key) == value for key, value in demand.labels)


def has_chips(demand: Demand, node: FreeNode) -> bool:
    """Whether it offers all of the chips, in the numbers that are known."""
    counts = dict(demand.counts)
    if demand.chips:
        return all(count_offered(node.offers, chip) >= counts.get(chip, 1) for chip in demand.chips)
    if not (counts and node.is_modelled):
        return True
    return node.chip_id in counts and count_offered(node.offers, node.chip_id) >= counts[node.chip_id]


def has_memory(demand: Demand, node: FreeNode) -> bool:
    """Not known to be too small."""
    return node.memory_bytes is None or demand.memory_bytes <= node.memory_bytes


def assign(
    queued: Sequence[QueuedRun],
    nodes: Sequence[FreeNode],
    served: Mapping[int, Service] | None = None,
    held: Mapping[Repeat, int] | None = None,
) -> list[tuple[int, int]]:
    """Pairs (run_id, node_id), each run and each node at most once. `nodes` come idle for longest first; `held` says
    which live node has which repeat."""
    round_ = _Round(queued, nodes, served or {}, held or {})
    pairs: list[tuple[int, int]] = []
    while (pair := round_.next_pair()) is not None:
        pairs.append(pair)
    return pairs


class _Round:
    """One assignment under way: the lines of waiting runs, the nodes that are left, and who was given what."""

    def __init__(
        self,
        queued: Sequence[QueuedRun],
        nodes: Sequence[FreeNode],
        served: Mapping[int, Service],
        held: Mapping[Repeat, int],
    ) -> None:
        self._free = {node.node_id: node for node in nodes}
        self._served, self._holder = served, dict(held)
        self._given: dict[int, int] = {}
        self._matching: dict[Demand, frozenset[int]] = {}
        self._lines: dict[int, deque[QueuedRun]] = {}
        for run in sorted(queued, key=lambda run: (run.experiment_id, run.position, run.run_id)):
            self._lines.setdefault(run.experiment_id, deque()).append(run)

    def next_pair(self) -> tuple[int, int] | None:
        for line in self._lines.values():
            # Nodes only become fewer: what fits none now fits none later in this round.
            while line and not self._fitting(line[0]):
                line.popleft()
        run = min((line[0] for line in self._lines.values() if line), key=self._turn, default=None)
        if run is None:
            return None
        fitting = self._fitting(run)
        nodes = [node for node in self._free.values() if node.node_id in fitting]
        node = next((node for node in nodes if run.model in node.models), nodes[0])
        del self._free[node.node_id]
        self._lines[run.experiment_id].popleft()
        self._holder[run.group] = node.node_id
        self._given[run.experiment_id] = self._given.get(run.experiment_id, 0) + 1
        return run.run_id, node.node_id

    def _turn(self, run: QueuedRun) -> tuple[int, int, dt.datetime, int]:
        service = self._served.get(run.experiment_id, Service())
        under_way = service.under_way + self._given.get(run.experiment_id, 0)
        return -run.priority, under_way, service.last_assigned_at, run.experiment_id

    def _fitting(self, run: QueuedRun) -> frozenset[int]:
        """The nodes that are left and may take the run now."""
        holder = self._holder.get(run.group)
        left = self._matching_nodes(run.demand) & self._free.keys()
        return left if holder is None else left & {holder}

    def _matching_nodes(self, demand: Demand) -> frozenset[int]:
        if demand not in self._matching:
            found = frozenset(node.node_id for node in self._free.values() if matches(demand, node))
            self._matching[demand] = found
        return self._matching[demand]
