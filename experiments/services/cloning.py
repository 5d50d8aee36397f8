"""A new experiment from an old one: the same document, some of its values changed, or another document altogether.

A clone is submitted like any document, and refused like any; it only says which experiment it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.models import Experiment
from experiments.services.submit import Submission, submit_once
from labsite.accounts.models import User
from runners.changes import apply_changes
from runners.document import check_limits


def clone_experiment(
    user: User,
    experiment: Experiment,
    *,
    name: str | None = None,
    changes: Mapping[str, Any] | None = None,
    document: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Submission:
    """Submits the clone to the original's project. `changes` are values by dotted path.

    Raises what submit_once does: AccessDenied, SpecError, IdempotencyConflict.
    """
    changed = clone_document(experiment, name=name, changes=changes, document=document)
    return submit_once(user, experiment.project, changed, idempotency_key, cloned_from=experiment)


def clone_document(
    experiment: Experiment,
    *,
    name: str | None = None,
    changes: Mapping[str, Any] | None = None,
    document: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of a clone, unchecked but for its size. Name, question and tags are what the original has now.
    Raises SpecError where a path leads through a value that holds no keys."""
    if document is None:
        document = {**experiment.document, "name": experiment.name, **_said(experiment)}
    check_limits({"document": document, "set": dict(changes or {}), "name": name})
    changed = apply_changes(document, changes or {})
    return {**changed, "name": name} if name is not None else changed


def _said(experiment: Experiment) -> dict[str, Any]:
    """What people said of it, where it was in the document or has been added since."""
    now = {"question": experiment.question, "tags": experiment.tags}
    return {field: value for field, value in now.items() if value or field in experiment.document}
