"""The traces that workloads name: found in the project, cut as asked, and what speaks against them. Reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from experiments.trace_models import Trace
from experiments.traces import is_timed, names_in, ref_of, traces_of
from runners.document import FieldError
from runners.spec import ExperimentSpec, OpenArrival, RecordedArrival, TraceRef, TraceSpec
from runners.spec.arrival import LONGEST_S

FIELD = "workload.trace"
TraceChoice = TraceRef | list[FieldError] | None


def trace_of(cell: ExperimentSpec) -> TraceSpec | None:
    """What a trial replays, if it does."""
    return cell.workload.trace if cell.workload.kind == "trace" else None


class TraceChooser:
    """For one look at a plan of a project."""

    def __init__(self, project_id: int, cells: Iterable[ExperimentSpec]) -> None:
        self._project_id = project_id
        named = {trace.name for cell in cells if (trace := trace_of(cell)) is not None}
        self._traces: Mapping[str, Trace] = traces_of(project_id, named) if named else {}

    def choose(self, cell: ExperimentSpec) -> TraceChoice:
        """What the trial's runs are frozen with, or every fault; None where it replays nothing."""
        asked = trace_of(cell)
        if asked is None:
            return None
        trace = self._traces.get(asked.name)
        if trace is None:
            message = f"this project has no trace {asked.name!r}"
            return [FieldError(f"{FIELD}.name", message, names_in(self._project_id))]
        ref = ref_of(trace, asked)
        if ref is None:
            allowed = f"start_s below {trace.summary['duration_s']:g}, and a cut that leaves a row"
            return [FieldError(FIELD, f"nothing is left of {trace.name}: none of its rows is in this cut", allowed)]
        return list(_faults(cell, asked, trace, ref)) or ref


def longest_of(cell: ExperimentSpec, trace: TraceRef | None, max_model_len: int) -> int:
    """Tokens of the longest prompt and answer together, as the trial's runs have it (RunSpec.longest)."""
    return cell.workload.longest if trace is None else min(trace.extent.longest, max_model_len)


def _faults(cell: ExperimentSpec, asked: TraceSpec, trace: Trace, ref: TraceRef) -> Iterator[FieldError]:
    arrival, extent = cell.workload.arrival, ref.extent
    if isinstance(arrival, RecordedArrival):
        if not is_timed(trace):
            message = f"{trace.name} has no times: its requests can't come as they were recorded"
            yield FieldError("workload.arrival.kind", message, ["closed", "open"])
        elif extent.lasts_s * asked.time_scale > LONGEST_S:
            message = f"{extent.lasts_s * asked.time_scale:,.0f} s of requests; a load lasts at most a week"
            allowed = f"at most {LONGEST_S / extent.lasts_s:.3g}, or a cut by trace.seconds"
            yield FieldError(f"{FIELD}.time_scale", message, allowed)
    if isinstance(arrival, OpenArrival) and extent.requests > arrival.request_rate * LONGEST_S:
        message = f"{extent.requests:,} requests at {arrival.request_rate:g} per second arrive over more than a week"
        yield FieldError("workload.arrival.request_rate", message, f"at least {extent.requests / LONGEST_S:.3g}")
    budget = cell.engine.max_num_batched_tokens
    if not cell.engine.scheduler.chunked_prefill and extent.longest_input > budget:
        message = f"without chunked prefill a prompt of {extent.longest_input} tokens does not fit a step of {budget}"
        yield FieldError("engine.max_num_batched_tokens", message, f"at least {extent.longest_input}")
