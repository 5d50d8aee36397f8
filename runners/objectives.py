"""Service objectives against the records of requests: which one binds a request, and whether it was kept. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from runners.events import RequestRecord
from runners.request_figures import e2el_s, tpot_s, ttft_s
from runners.spec import RunSpec, SloSpec

Measure = Callable[[RequestRecord], float | None]


def meets_slo(record: RequestRecord, slo: SloSpec) -> bool | None:
    """Whether one request is ok and within every objective; None without an SLO.

    An objective on a percentile binds the run (see `slo_met`); for goodput its bound is asked of each request too.
    """
    bounds = [(measure, bound) for measure, bound, _ in objectives(slo)]
    if not bounds:
        return None
    if record.status != "ok":
        return False
    values = [(measure(record), bound) for measure, bound in bounds]
    return all(value is None or value <= bound for value, bound in values)


def objectives(slo: SloSpec) -> list[tuple[Measure, float, str | None]]:
    """(measure, bound in s, percentile or None) for each objective that the SLO names."""
    found: list[tuple[Measure, float, str | None]] = []
    for measure, value in ((ttft_s, slo.ttft_s), (tpot_s, slo.tpot_s), (e2el_s, slo.e2el_s)):
        if isinstance(value, dict):
            found.extend((measure, bound, name) for name, bound in value.items())
        elif value is not None:
            found.append((measure, value, None))
    return found


def slo_met(records: Sequence[RequestRecord], slo: SloSpec) -> bool | None:
    """Whether the run as a whole meets its SLO: every bare bound by every ok request, every percentile by its value."""
    checks = []
    for measure, bound, percentile in objectives(slo):
        values = [v for record in records if record.status == "ok" and (v := measure(record)) is not None]
        if not values:
            return False
        worst = max(values) if percentile is None else float(np.percentile(values, float(percentile[1:])))
        checks.append(worst <= bound)
    return all(checks) if checks else None


def slo_of(record: RequestRecord, spec: RunSpec) -> SloSpec:
    """A class without an objective of its own takes the experiment's."""
    return class_slo(record.traffic_class, spec)


def class_slo(name: str | None, spec: RunSpec) -> SloSpec:
    own = next((one.slo for one in spec.workload.classes if one.name == name), None) if name else None
    return spec.slo if own is None else own


def all_slos(spec: RunSpec) -> Iterator[SloSpec]:
    """Of the experiment and of every class."""
    yield spec.slo
    for one in spec.workload.classes:
        if one.slo is not None:
            yield one.slo


def has_objectives(spec: RunSpec) -> bool:
    return any(objectives(slo) for slo in all_slos(spec))


def is_good(record: RequestRecord, spec: RunSpec) -> bool:
    """Ok, and within what binds it; a class of traffic may be bound by nothing."""
    return record.status == "ok" and meets_slo(record, slo_of(record, spec)) is not False


def run_slo_met(records: Sequence[RequestRecord], spec: RunSpec) -> bool | None:
    """Whether every class of traffic meets its objective as a whole (without classes, the run its own); None where none
    has any."""
    names: list[str | None] = [one.name for one in spec.workload.classes] or [None]
    met = [
        slo_met([r for r in records if name is None or r.traffic_class == name], class_slo(name, spec))
        for name in names
    ]
    known = [one for one in met if one is not None]
    return all(known) if known else None
