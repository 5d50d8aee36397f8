"""What is exported of a run or an experiment: which attempts, under which name, with which words about them.

The final attempt counts, as in every result. Runs of an experiment that have none yet are left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, get_args

from django.utils import timezone
from django.utils.text import slugify

from experiments.errors import NoFinalAttempt
from experiments.exports.records import Source, record_columns, record_pieces
from experiments.exports.runs import run_columns, run_pieces
from experiments.exports.table import Table
from experiments.models import RUN_ENDED, Attempt, Experiment, Run
from experiments.provenance import code_revision

RecordKind = Literal["requests", "samples", "steps", "log"]
ExportKind = Literal["requests", "samples", "steps", "log", "runs"]
RECORD_KINDS: tuple[RecordKind, ...] = get_args(RecordKind)

NAME_LENGTH = 50


@dataclass(frozen=True)
class Export:
    """`stem` is the file's name without its format, in ASCII letters, digits and hyphens."""

    stem: str
    table: Table
    runs: int
    left_out: int = 0


def export_run(run: Run, kind: RecordKind, number: int | None = None) -> Export:
    """The records of the run's final attempt, or of the one with that number.

    Raises Attempt.DoesNotExist, NoFinalAttempt where the run has not ended.
    """
    attempts = list(Attempt.objects.filter(run=run).select_related("node").order_by("number"))
    if number is not None:
        chosen = [attempt for attempt in attempts if attempt.number == number]
        if not chosen:
            raise Attempt.DoesNotExist(f"run {run.pk} has no attempt {number}")
    elif run.state in RUN_ENDED:
        chosen = [attempt for attempt in attempts if attempt.pk == run.final_attempt_id]
    else:
        raise NoFinalAttempt(run.pk, [attempt.number for attempt in attempts])
    words = {"run_id": str(run.pk), "trial_settings": str(run.trial.settings), "state": run.state}
    if chosen:
        words |= {"attempt": str(chosen[0].number), "node": chosen[0].node.slug if chosen[0].node else "imported"}
    stem = f"run-{run.pk}" + (f"-attempt-{number}" if number else "")
    return Export(f"{stem}-{kind}", _records(kind, run.experiment, chosen, words), len(chosen))


def export_experiment(experiment: Experiment, kind: ExportKind) -> Export:
    """All its runs in a row each, or the records of all their final attempts, run after run."""
    runs = Run.objects.filter(experiment=experiment)
    name = slugify(experiment.name)[:NAME_LENGTH].strip("-_")
    stem = "-".join(part for part in ("experiment", str(experiment.pk), name, kind) if part)
    if kind == "runs":
        words = _words(experiment, {})
        return Export(stem, Table(kind, run_columns(experiment), run_pieces(experiment), words), runs.count())
    final = Attempt.objects.filter(pk__in=runs.values("final_attempt_id"))
    chosen = list(final.select_related("node").order_by("run__position").defer("report"))
    open_runs = runs.exclude(state__in=RUN_ENDED).count()
    words = {"runs": str(len(chosen)), "unfinished_runs_left_out": str(open_runs)}
    return Export(stem, _records(kind, experiment, chosen, words), len(chosen), open_runs)


def _records(kind: RecordKind, experiment: Experiment, attempts: list[Attempt], words: dict[str, str]) -> Table:
    sources = [Source(one.run_id, one.number, one.is_modelled) for one in attempts]
    kinds = {"modelled" if source.modelled else "measured" for source in sources}
    words = {"figures": " and ".join(sorted(kinds)), **words}
    return Table(kind, record_columns(kind), record_pieces(kind, sources), _words(experiment, words))


def _words(experiment: Experiment, more: dict[str, str]) -> dict[str, str]:
    return {
        "experiment_id": str(experiment.pk),
        "experiment": experiment.name,
        **more,
        "lab_version": lab_version(),
        "lab_revision": code_revision(),
        "exported_at": timezone.now().isoformat(),
    }


def lab_version() -> str:
    try:
        return version("inference-lab")
    except PackageNotFoundError:
        return "unknown"
