"""Turns the records of a run's final attempt into its summary and validity, and a verdict on what held it up.

Called once the attempt is fully stored.

The definitions are in runners.metrics; how summaries are compared and what a bottleneck is, in experiments.analysis.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from experiments.analysis.bottleneck import gather, judge
from experiments.imported import knows_the_runtime, only_known
from experiments.models import (
    Attempt,
    AttemptState,
    Record,
    RequestRecord,
    Run,
    StepRecord,
)
from runners import events
from runners.distributions import distributions
from runners.events import Report
from runners.metrics import summarize
from runners.spec import RunSpec
from runners.validity import Reason

E = TypeVar("E", bound=events.Event)

_NOT_KEPT: set[str] = set()


def store_results(run: Run) -> None:
    """Computes and stores `summary`, `distributions`, `valid` and `reasons` from the final attempt's records. The same
    records always give the same result, so it may be called again. A run without an attempt has no result."""
    attempt = run.final_attempt
    if attempt is None:
        return
    requests = load_records(RequestRecord, events.RequestRecord, attempt)
    steps = load_records(StepRecord, events.Step, attempt)
    report, spec = report_of(attempt), RunSpec.model_validate(run.spec)
    found = summarize(requests, steps, report, spec, attempt=attempt.number)
    summary, latencies = found.as_json(), found.latencies
    if run.imported is not None:
        summary = only_known(summary, run.imported)
        latencies = {name: values for name, values in latencies.items() if name not in run.imported["unmeasured"]}
    if report.outcome != "cancelled" and knows_the_runtime(run.imported):
        summary["bottleneck"] = judge(gather(requests, steps, report, spec, attempt=attempt.number)).as_json()
    summary["reasons"] += [reason.as_json() for reason in evidence_gaps(attempt)]
    summary["valid"] = not summary["reasons"]
    Run.objects.filter(id=run.id).update(
        summary=summary,
        distributions=distributions(latencies),
        valid=summary["valid"],
        reasons=[reason["code"] for reason in summary["reasons"]],
    )


def load_records(table: type[Record], kind: type[E], attempt: Attempt) -> list[E]:
    """The attempt's events of one kind, in the order they were numbered. There may be a million: what pydantic keeps of
    each about which fields were given, two thirds of its size, is let go."""
    rows = table._default_manager.filter(run_id=attempt.run_id, attempt=attempt.number).order_by("seq")
    return [_lighter(kind.model_validate(data)) for data in rows.values_list("data", flat=True).iterator()]


def _lighter(event: E) -> E:
    object.__setattr__(event, "__pydantic_fields_set__", _NOT_KEPT)
    return event


def report_of(attempt: Attempt) -> Report:
    """The node's report; where it gave none, one that says how the control plane ended the attempt."""
    if attempt.report is not None:
        return Report.model_validate(attempt.report)
    cancelled = attempt.state == AttemptState.CANCELLED
    outcome: Literal["cancelled", "failed"] = "cancelled" if cancelled else "failed"
    return Report(outcome=outcome, error=attempt.reason or None, events=attempt.stored_seq)


def evidence_gaps(attempt: Attempt) -> list[Reason]:
    """Reasons that lie in what was stored rather than in what was measured."""
    if not attempt.unreadable_events:
        return []
    message = f"{attempt.unreadable_events} events of the node could not be read; see the log"
    return [Reason("unreadable_events", message, float(attempt.unreadable_events), 0.0)]
