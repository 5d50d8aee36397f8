"""How an experiment decides on its runs, as the form's controls change it: repeats that are given, repeats until an
interval is tight, or a search. The values that a search of settings may try are left to the document's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.form.kinds import axes_of
from experiments.form.rewrite import REMOVED, Change
from experiments.form.scalars import scalar
from runners.dotted import read
from runners.spec.search import CONCURRENCY, REQUEST_RATE

UNTIL, LOAD, BEST, FRONT = "until", "maximize", "optimize", "pareto"
Document = Mapping[str, Any]
SPACE = {"engine.max_num_seqs": {"low": 4, "high": 64, "log": True}}
STARTS: dict[str, dict[str, Any]] = {
    BEST: {"optimize": "output_throughput", "space": SPACE, "trials": 20},
    FRONT: {"pareto": {"metrics": ["output_throughput", "tpot"], "space": SPACE, "trials": 20}},
}
UNTIL_START = {"until": {"metric": "output_throughput", "interval": 0.03, "max": 12}}


def kind_of_planning(document: Document) -> str:
    """The key that tells how runs are decided on; empty where their number is given."""
    search = document.get("search")
    if isinstance(search, Mapping):
        return next((kind for kind in (LOAD, BEST, FRONT) if kind in search), LOAD)
    repeats = document.get("repeats")
    return UNTIL if isinstance(repeats, Mapping) else ""


def searched_by_form(document: Document) -> str:
    """The load that this workload's arrivals have."""
    return REQUEST_RATE if read(document, "workload.arrival.kind") == "open" else CONCURRENCY


def set_planning(rest: str, value: str, document: Document) -> list[Change]:
    """Another way, with values to start from; what only the old one had goes, and an axis over what is searched."""
    if value == kind_of_planning(document):
        return []
    gone = [Change((key,), REMOVED) for key in ("search", "repeats") if isinstance(document.get(key), Mapping)]
    if value == UNTIL:
        return [*gone, Change(("repeats",), UNTIL_START)]
    if value == LOAD:
        path = searched_by_form(document)
        rate = path == REQUEST_RATE
        start = {"maximize": path, "under": "slo", "low": 0.5 if rate else 1, "high": 32.0 if rate else 64}
        return [*gone, *_without_repeats(document), *_without_axis(path, document), Change(("search",), start)]
    if value in STARTS:
        space = [change for path in SPACE for change in _without_axis(path, document)]
        return [*gone, *_without_repeats(document), *space, Change(("search",), STARTS[value])]
    return gone


def _without_repeats(document: Document) -> list[Change]:
    """A search says itself how often it repeats."""
    return [Change(("repeats",), REMOVED)] if "repeats" in document else []


def _without_axis(path: str, document: Document) -> list[Change]:
    axes = axes_of(document)
    if path not in axes:
        return []
    return [Change(("matrix", path) if len(axes) > 1 else ("matrix",), REMOVED)]


def set_planned(path: str, value: str, document: Document) -> list[Change]:
    """One value below `search` or `repeats.until`; emptied, its default holds."""
    keys = tuple(path.split("."))
    return [Change(keys, scalar(value) if value.strip() else REMOVED)]
