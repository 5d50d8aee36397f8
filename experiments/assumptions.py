"""What a view's address assumes of nodes' prices and power: `usd_per_hour[node]=2.5&watts[node]=300`.

Read for the pages and the API alike; the arithmetic is in experiments.analysis.assumed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.analysis.assumed import Assumed
from experiments.analysis.compare import TrialResult

MOST = {"usd_per_hour": 1_000_000.0, "watts": 1e9}
LABELS = {"usd_per_hour": "$ per hour", "watts": "W"}
_KEY = re.compile(r"^(usd_per_hour|watts)\[([a-z0-9._-]{1,100})\]$")


@dataclass(frozen=True)
class BadAssumption(Exception):
    """One that can't be taken; sending it again changes nothing."""

    field: str
    value: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value[:50]!r} can't be taken; allowed: {self.allowed}"


@dataclass(frozen=True)
class NodeInput:
    """A node's two fields of the form: their names in the address, and what they hold."""

    node: str
    usd_name: str
    usd: str
    watts_name: str
    watts: str


def assumed_in(asked: Mapping[str, Any]) -> Assumed:
    """Empty fields count as not given. Raises BadAssumption."""
    found: dict[str, dict[str, float]] = {"usd_per_hour": {}, "watts": {}}
    for key in asked:
        named = _KEY.match(key)
        text = str(asked[key]).strip()
        if named and text:
            found[named[1]][named[2]] = _number(key, named[1], text)
    return Assumed(found["usd_per_hour"], found["watts"])


def read_assumed(asked: Mapping[str, Any]) -> tuple[Assumed, str]:
    """For a page: with a fault nothing is assumed, and the fault is told."""
    try:
        return assumed_in(asked), ""
    except BadAssumption as error:
        return Assumed(), str(error)


def node_inputs(trials: Iterable[TrialResult], asked: Mapping[str, Any]) -> list[NodeInput]:
    """Of every node that a run of the trials was on, as typed."""
    nodes = sorted({run.node for trial in trials for run in trial.runs if run.node})
    return [
        NodeInput(
            node, usd := f"usd_per_hour[{node}]", asked.get(usd, ""), watts := f"watts[{node}]", asked.get(watts, "")
        )
        for node in nodes
    ]


def kept_fields(asked: Mapping[str, Any]) -> dict[str, str]:
    """What other forms of the page have to send along so that it stays assumed."""
    return {key: value for key, value in asked.items() if _KEY.match(key) and str(value).strip()}


def _number(key: str, kind: str, text: str) -> float:
    allowed = f"a number from 0 to {MOST[kind]:,.0f} {LABELS[kind]}" if kind == "usd_per_hour" else (
        f"a number above 0, to {MOST[kind]:,.0f} {LABELS[kind]}")  # fmt: skip
    try:
        value = float(text)
    except ValueError:
        raise BadAssumption(key, text, allowed) from None
    least_passed = value >= 0 if kind == "usd_per_hour" else value > 0
    if not math.isfinite(value) or not least_passed or value > MOST[kind]:
        raise BadAssumption(key, text, allowed)
    return value
