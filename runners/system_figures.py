"""Figures of the system that a run was on: its chips, what their links and their power took, and what they cost.

From the steps of all its engines and `report.facts`: `system` says which pools of engines there are and what an engine
draws while it waits, `usd_per_hour` what the chips cost by the catalog. Only modelled steps say their energy; what is
not known of one engine is not known of the system. The definitions are METRICS.md's; `runners.metrics` gives them out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.events import Report, Step
from runners.spec import RunSpec
from runners.window import Window, window_of


@dataclass(frozen=True)
class SystemFigures:
    """`link_share` is of step time, `energy_j` of all chips over the window, idle or not, as `energy_source` says: a
    meter, the cost model, or the watts that the document assumes."""

    chips: int
    engines: int
    link_share: float | None
    energy_j: float | None
    energy_source: str | None
    usd_per_hour: float | None


def system_figures(steps: Sequence[Step], report: Report, spec: RunSpec) -> SystemFigures:
    """`steps` are all of the run. A run whose report names no system is of one engine on one chip."""
    system = report.facts.get("system") or {}
    pools = system.get("pools") or []
    window = window_of(report)
    inside = [] if window is None else list(_inside(steps, window))
    energy_j, energy_source = _energy(inside, report, spec, window)
    return SystemFigures(
        chips=int(system.get("chips") or 1),
        engines=sum(int(pool["engines"]) for pool in pools) or 1,
        link_share=_link_share(inside),
        energy_j=energy_j,
        energy_source=energy_source,
        usd_per_hour=spec.usd_per_hour if spec.usd_per_hour is not None else report.facts.get("usd_per_hour"),
    )


def sum_over_engines(steps: Sequence[Step], measure: Callable[[Step], float]) -> float | None:
    """The engines' means over their own steps, added up: how many requests run or wait in the whole system."""
    by_engine: defaultdict[str | None, list[float]] = defaultdict(list)
    for step in steps:
        by_engine[step.engine].append(measure(step))
    return sum(sum(values) / len(values) for values in by_engine.values()) if by_engine else None


def _inside(steps: Sequence[Step], window: Window) -> Iterator[tuple[Step, float]]:
    """Each step that ran in the window, with the seconds of it that did."""
    start, end = window
    for step in steps:
        seconds = min(step.start_s + step.duration_s, end) - max(step.start_s, start)
        if seconds > 0:
            yield step, seconds


def _link_share(inside: Sequence[tuple[Step, float]]) -> float | None:
    told = [(step, seconds) for step, seconds in inside if step.link_s is not None]
    busy_s = sum(seconds for _, seconds in told)
    return sum((step.link_s or 0.0) * seconds / step.duration_s for step, seconds in told) / busy_s if busy_s else None


def _energy(
    inside: Sequence[tuple[Step, float]], report: Report, spec: RunSpec, window: Window | None
) -> tuple[float | None, str | None]:
    """Joules of the window, and where they are from."""
    if window is None:
        return None, None
    if isinstance(spec.cost.watts, float):
        return spec.cost.watts * (window[1] - window[0]), "assumed"
    power = report.facts.get("power") or {}
    if power.get("energy_j") is not None:
        return float(power["energy_j"]), power["source"]
    modelled_j = _energy_j(inside, (report.facts.get("system") or {}).get("pools") or [], window)
    return modelled_j, None if modelled_j is None else "modelled"


def _energy_j(inside: Sequence[tuple[Step, float]], pools: Sequence[Mapping[str, Any]], window: Window) -> float | None:
    """Joules of the steps, cut at the window's edges, and of each engine's idle chips for the rest of the window."""
    busy_s: defaultdict[str | None, float] = defaultdict(float)
    energy_j = 0.0
    for step, seconds in inside:
        if step.energy_j is None:
            return None
        energy_j += step.energy_j * seconds / step.duration_s
        busy_s[step.engine] += seconds
    for name, pool in _engines(pools):
        if pool.get("idle_w") is None:
            return None
        energy_j += pool["idle_w"] * max(0.0, window[1] - window[0] - busy_s[name])
    return energy_j if pools else None


def _engines(pools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """Each engine by the name that its steps carry, with its pool: a single one has no name."""
    alone = len(pools) == 1 and pools[0]["engines"] == 1
    for pool in pools:
        for place in range(int(pool["engines"])):
            yield None if alone else f"{pool['role']}-{place}", pool
