"""An experiment as a bundle (runners.interchange.bundle): all that another lab needs to come to the same figures.

Of a run its final attempt counts, as in every result. Ids are left out: runs and trials are known by their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from experiments.comparison import compare_experiment
from experiments.errors import WrongState
from experiments.exports.build import lab_version
from experiments.exports.records import Source, stored_pieces
from experiments.models import (
    RUN_ENDED,
    Attempt,
    Experiment,
    LogLine,
    Record,
    RequestRecord,
    Run,
    Sample,
    StatusRecord,
    StepRecord,
    Trial,
)
from experiments.provenance import code_revision
from runners.interchange.bundle import EXPERIMENT, FIGURES, bundle_bytes, member_of

TABLES: dict[str, type[Record]] = {
    "request": RequestRecord,
    "sample": Sample,
    "step": StepRecord,
    "log": LogLine,
    "status": StatusRecord,
}
RUN_FIELDS = ("repeat", "position", "state", "reason", "spec", "summary", "valid", "reasons", "prediction", "imported")


def check_ended(experiment: Experiment) -> None:
    """Raises WrongState while a run of it has not ended: a bundle is of what can't change any more."""
    left = Run.objects.filter(experiment=experiment).exclude(state__in=RUN_ENDED).count()
    if left:
        raise WrongState(f"{left} runs of experiment {experiment.pk} have not ended: wait, or cancel it")


def bundle_of(experiment: Experiment) -> Iterator[bytes]:
    """The file piece by piece."""
    return bundle_bytes(f"{lab_version()} {code_revision()}", _members(experiment))


def _members(experiment: Experiment) -> Iterator[tuple[str, Iterable[bytes]]]:
    attempts = _attempts(experiment)
    yield EXPERIMENT, _experiment(experiment, attempts)
    for position, attempt in attempts.items():
        source = Source(attempt.run_id, attempt.number, attempt.is_modelled)
        for kind, table in TABLES.items():
            yield member_of(position, kind), _lines(table, source)
    yield FIGURES, [json.dumps(compare_experiment(experiment), allow_nan=False).encode()]


def _attempts(experiment: Experiment) -> dict[int, Attempt]:
    """The final attempts by the position of their runs."""
    final = Run.objects.filter(experiment=experiment).exclude(final_attempt=None).values("final_attempt_id")
    rows = Attempt.objects.filter(pk__in=final).select_related("node__chip", "chip", "run").order_by("run__position")
    return {attempt.run.position: attempt for attempt in rows}


def _experiment(experiment: Experiment, attempts: dict[int, Attempt]) -> Iterator[bytes]:
    """The description in pieces: a run at a time, since summaries are large."""
    trials = Trial.objects.filter(experiment=experiment).order_by("index")
    head = {
        "name": experiment.name,
        "question": experiment.question,
        "tags": experiment.tags,
        "document": experiment.document,
        "spec": experiment.spec,
        "state": experiment.state,
        "imported": experiment.imported,
        "trials": list(trials.values("index", "settings", "label")),
    }
    yield json.dumps(head, allow_nan=False).encode()[:-1] + b', "runs": ['
    runs = Run.objects.filter(experiment=experiment).order_by("position").select_related("trial")
    for place, run in enumerate(runs.iterator(chunk_size=50)):
        told = {name: getattr(run, name) for name in RUN_FIELDS} | {"trial": run.trial.index}
        told |= {"started_at": _time(run.started_at), "ended_at": _time(run.ended_at)}
        told["attempt"] = _attempt(attempts.get(run.position))
        yield (b", " if place else b"") + json.dumps(told, allow_nan=False).encode()
    yield b"]}"


def _attempt(attempt: Attempt | None) -> dict[str, Any] | None:
    if attempt is None:
        return None
    return {
        "number": attempt.number,
        "state": attempt.state,
        "reason": attempt.reason,
        "stored_seq": attempt.stored_seq,
        "events": attempt.events,
        "unreadable_events": attempt.unreadable_events,
        "report": attempt.report,
        "modelled": attempt.is_modelled,
        "node": {"name": attempt.node.name, "kind": attempt.node.kind, "facts": attempt.node.facts}
        if attempt.node
        else None,
        "chip": attempt.chip.record if attempt.chip else None,
    }


def _lines(table: type[Record], source: Source) -> Iterator[bytes]:
    for piece in stored_pieces(table, source):
        yield b"".join(json.dumps({"seq": seq, **data}, allow_nan=False).encode() + b"\n" for seq, data in piece)


def _time(moment: Any) -> str | None:
    return moment.isoformat() if moment else None
