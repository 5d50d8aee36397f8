"""The traces that a person may see, and that an experiment may name. Reads."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from django.db.models import QuerySet

from experiments.trace_models import Trace
from experiments.trace_store import path_of
from labsite.accounts.models import User
from labsite.accounts.permissions import projects_of
from runners.spec.trace import TraceExtent, TraceRef, TraceSpec
from runners.traces.clipping import extent_of
from runners.traces.kept_rows import cut_rows, kept_rows

PREVIEWED = 20


def readable_traces(user: User) -> QuerySet[Trace]:
    """Those of his projects."""
    return Trace.objects.filter(project__in=projects_of(user)).select_related("project", "created_by")


def traces_of(project_id: int, names: Iterable[str]) -> dict[str, Trace]:
    """Those of the project that have these names. One query."""
    return {trace.name: trace for trace in Trace.objects.filter(project=project_id, name__in=set(names))}


def names_in(project_id: int) -> list[str]:
    return list(Trace.objects.filter(project=project_id).values_list("name", flat=True)[:100])


def is_timed(trace: Trace) -> bool:
    """Whether its rows came at different times, so that they can be replayed so."""
    return bool(trace.summary["duration_s"] > 0)


def first_lines(trace: Trace) -> list[bytes]:
    """The first rows as they are kept."""
    with path_of(trace.sha256).open("rb") as file:
        return [line for line, _ in zip(file, range(PREVIEWED), strict=False)]


def ref_of(trace: Trace, cut: TraceSpec) -> TraceRef | None:
    """What a run is frozen with; None where the cut leaves no row. Reads the file where something is cut."""
    extent = _whole(trace, cut) or _cut_extent(
        trace.sha256, trace.block_tokens, cut.model_copy(update={"name": "any", "time_scale": 1.0})
    )
    if extent is None:
        return None
    return TraceRef(
        name=trace.name, sha256=trace.sha256, bytes=trace.bytes, block_tokens=trace.block_tokens, extent=extent
    )


def _whole(trace: Trace, cut: TraceSpec) -> TraceExtent | None:
    """The extent, where nothing is cut."""
    goes_on = cut.seconds is None or cut.seconds > trace.summary["duration_s"]
    if cut.start_s or not goes_on or (cut.num_requests or trace.rows) < trace.rows:
        return None
    return TraceExtent.model_validate(trace.summary["extent"])


@lru_cache(maxsize=512)
def _cut_extent(sha256: str, block_tokens: int, cut: TraceSpec) -> TraceExtent | None:
    """A file never changes under its hash, so its figures are remembered."""
    return extent_of(cut_rows(kept_rows(path_of(sha256), block_tokens), cut), cut.start_s)
