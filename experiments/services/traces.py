"""Registering a trace in a project, and removing it.

The file is read whole and checked before anything is kept; equal files are kept once, whatever projects they are in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import BinaryIO

from django.db import IntegrityError, connection, transaction

from experiments.errors import BadParameter, ExperimentError
from experiments.models import Experiment
from experiments.trace_models import Trace
from experiments.trace_store import draft, path_of
from labsite.accounts.audit import record
from labsite.accounts.models import Project, Role, User
from labsite.accounts.permissions import require, require_control
from runners.document import FieldError, SpecError
from runners.spec import TraceRef
from runners.traces.formats import UnknownFormat
from runners.traces.keeping import KeptTrace, keep_trace
from runners.traces.rows import BadLines, TraceError

MAX_UPLOAD_BYTES = 512 * 1024 * 1024
# Whoever changes which files there are holds it until his transaction ends: an advisory lock of this number.
KEEPING = 0x1AB_0002


class TraceExists(ExperimentError):
    """The name is taken in the project, by a trace of other rows."""

    def __init__(self, name: str, project: str) -> None:
        super().__init__(f"project {project} has a trace {name!r} of other rows; register this one under another name")


class TraceInUse(ExperimentError):
    """Experiments name it; their runs could not be made again without it."""

    def __init__(self, name: str, experiments: int) -> None:
        count = f"{experiments} experiment{'s' * (experiments != 1)}"
        super().__init__(f"trace {name!r} is named by {count}, and stays for as long as there is one")


class TraceRefused(ExperimentError):
    """The file can't be taken; each fault has its line, where it has one."""

    def __init__(self, error: TraceError) -> None:
        super().__init__(str(error))
        faults = error.lines if isinstance(error, BadLines) else []
        self.faults = [(f"line {fault.line}", fault.message) for fault in faults] or [("file", str(error))]
        self.count = error.count if isinstance(error, BadLines) else 1


def add_trace(
    user: User,
    project: Project,
    name: str,
    source: BinaryIO,
    *,
    format_name: str | None = None,
    block_tokens: int | None = None,
    skip_bad_lines: bool = False,
) -> tuple[Trace, bool]:
    """The trace, and whether it is new: the same rows under the same name again give the same one.

    `source` can be set back to its beginning. Raises AccessDenied, TraceRefused, TraceExists, BadParameter.
    """
    require(user, project, Role.RESEARCHER, "registering a trace")
    with draft() as path:
        try:
            kept = keep_trace(source, path, format_name, block_tokens, skip_bad_lines)
        except UnknownFormat as error:
            raise BadParameter("format", str(error)) from error
        except TraceError as error:
            raise TraceRefused(error) from error
        try:
            with transaction.atomic():
                _lock_files()
                trace = _create(user, project, name, kept)
                os.replace(path, path_of(kept.sha256))
                record(user, "trace.add", trace, sha256=kept.sha256, rows=kept.rows, format=kept.format)
        except IntegrityError:
            trace = Trace.objects.get(project=project, name=name)
            if trace.sha256 != kept.sha256:
                raise TraceExists(name, project.slug) from None
            return trace, False
    return trace, True


def remove_trace(user: User, trace: Trace) -> None:
    """Removes it, and its file where no other has it. Raises AccessDenied, TraceInUse."""
    require_control(user, trace.project, trace.created_by_id or 0, "removing")
    with transaction.atomic():
        held = Trace.objects.select_for_update().get(pk=trace.pk)
        if named := held.experiments.count():
            raise TraceInUse(held.name, named)
        record(user, "trace.remove", held, sha256=held.sha256)
        held.delete()
        transaction.on_commit(partial(forget_file, held.sha256))


def hold_traces(experiment: Experiment, refs: Iterable[TraceRef]) -> None:
    """Has the experiment name these traces of its project, so that they stay. Raises SpecError where one is gone."""
    wanted = {ref.name: ref.sha256 for ref in refs}
    if not wanted:
        return
    here = Trace.objects.select_for_update(no_key=True).filter(project=experiment.project_id, name__in=wanted)
    found = {trace.name: trace for trace in here.order_by("pk")}
    for name, sha256 in wanted.items():
        if name not in found or found[name].sha256 != sha256:
            raise SpecError([FieldError("workload.trace.name", f"trace {name!r} was removed meanwhile")])
    experiment.traces.add(*found.values())


def forget_file(sha256: str) -> None:
    """Deletes a file that no trace has any more."""
    with transaction.atomic():
        _lock_files()
        if not Trace.objects.filter(sha256=sha256).exists():
            path_of(sha256).unlink(missing_ok=True)


def _create(user: User, project: Project, name: str, kept: KeptTrace) -> Trace:
    return Trace.objects.create(
        project=project,
        name=name,
        format=kept.format,
        sha256=kept.sha256,
        source_sha256=kept.source_sha256,
        bytes=kept.bytes,
        rows=kept.rows,
        block_tokens=kept.block_tokens,
        skipped=kept.skipped,
        bad_lines=[asdict(line) for line in kept.bad_lines],
        summary=kept.summary,
        created_by=user,
    )


def _lock_files() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [KEEPING])
