"""At which settings a document that searches is checked before anything runs: each value that it may try, alone.

Pure. Whether values go together that were never tried alone shows in the search itself, which leaves out what can't be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runners.document_errors import FieldError
from runners.dotted import MISSING, read
from runners.spec import ExperimentSpec, LoadSearch, ParetoSearch, Range, Setting, SettingsSearch
from runners.spec.search import CONCURRENCY

Space = Mapping[str, Range | tuple[Setting, ...]]
ARRIVALS = {True: ("closed", "users at once"), False: ("open", "a request rate")}


def space_of(spec: ExperimentSpec) -> Space:
    """By path, the values between which the search may choose; empty of an experiment without one."""
    if isinstance(spec.search, LoadSearch):
        low, high = spec.search.low, spec.search.high
        ends = Range(low=int(low), high=int(high)) if spec.search.whole else Range(low=low, high=high)
        return {spec.search.path: ends}
    if isinstance(spec.search, SettingsSearch):
        return spec.search.space
    return spec.search.pareto.space if isinstance(spec.search, ParetoSearch) else {}


def where_searched(path: str, spec: ExperimentSpec) -> str | None:
    """The field of the document that has a searched path's values."""
    if path not in space_of(spec):
        return None
    if isinstance(spec.search, LoadSearch):
        return "search.maximize"
    return f"search.pareto.space.{path}" if isinstance(spec.search, ParetoSearch) else f"search.space.{path}"


def starts_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """By searched path a value to begin with, of a document that may still be faulty."""
    search = document.get("search")
    if not isinstance(search, Mapping):
        return {}
    path = search.get("maximize")
    if isinstance(path, str):
        low = search.get("low")
        whole = path == CONCURRENCY and isinstance(low, int | float)
        return {path: int(low) if whole and isinstance(low, int | float) else low} if low is not None else {}
    part = search.get("pareto")
    space = part.get("space") if isinstance(part, Mapping) else search.get("space")
    found = {}
    for name, values in space.items() if isinstance(space, Mapping) else ():
        if isinstance(values, Mapping) and values.get("low") is not None:
            found[name] = values["low"]
        elif isinstance(values, list) and values:
            found[name] = values[0]
    return found


def probes(spec: ExperimentSpec, document: Mapping[str, Any]) -> Iterator[dict[str, Setting]]:
    """Settings that each change one thing, on top of the first; what the document leaves to the search has a value in
    all of them."""
    space = space_of(spec)
    missing = {path: start for path, start in starts_of(document).items() if read(document, path, MISSING) is MISSING}
    for path, values in space.items():
        for value in values.ends if isinstance(values, Range) else values:
            yield missing | {path: value}


def search_faults(
    spec: ExperimentSpec, document: Mapping[str, Any], may_be_axis: Callable[[str], bool]
) -> Iterator[FieldError]:
    """What of a search does not go with the rest of its document."""
    if spec.search is None:
        return
    for path in space_of(spec):
        where = where_searched(path, spec) or "search"
        if path in spec.matrix:
            yield FieldError(where, "the matrix has this path as an axis", "a path that is no axis")
        elif not may_be_axis(path):
            yield FieldError(
                where, "this path can't be searched", ["model", "chip", "engine…", "placement…", "workload…"]
            )
    if spec.design != "factorial":
        yield FieldError("design", "a search decides on its trials itself", "factorial")
    if "repeats" in document:
        said = "a search says itself how often it repeats a trial"
        yield FieldError("repeats", said, "leave it out, and give confirm in search")
    if isinstance(spec.search, LoadSearch):
        yield from _load_faults(spec, spec.search)


def _load_faults(spec: ExperimentSpec, search: LoadSearch) -> Iterator[FieldError]:
    kind, words = ARRIVALS[search.whole]
    if spec.workload.arrival.kind != kind:
        message = f"{words} are of {kind} arrivals; this workload's are {spec.workload.arrival.kind}"
        yield FieldError("search.maximize", message, f"workload.arrival: {{kind: {kind}, …}}")
    if not any(spec.slo.model_dump().values()):
        yield FieldError("search.under", "the document has no objective", "an slo, such as slo: {ttft_s: {p95: 0.8}}")
