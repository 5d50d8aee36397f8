"""Changes what people say of an experiment: name, question, tags; and its priority in the queue.

The document stays as it was sent, and the runs as they were frozen: nothing that was measured changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from experiments.models import Experiment
from experiments.services.placing import request_placement
from labsite.accounts.audit import record
from labsite.accounts.models import Role, User
from labsite.accounts.permissions import require, require_control
from runners.document import FieldError, SpecError, document_errors
from runners.document_errors import merge_errors

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100


@dataclass(frozen=True)
class Edit:
    """The new values; None leaves a field as it is."""

    name: str | None = None
    question: str | None = None
    tags: Sequence[str] | None = None
    priority: int | None = None

    def changes(self) -> dict[str, Any]:
        tags = None if self.tags is None else list(self.tags)
        given = {"name": self.name, "question": self.question, "tags": tags, "priority": self.priority}
        return {field: value for field, value in given.items() if value is not None}


@transaction.atomic
def edit_experiment(user: User, experiment: Experiment, edit: Edit) -> None:
    """Writes the changes. A researcher gives his own experiments any priority up to 0, an operator any at all, so that
    nobody overtakes the others by his own decision. Raises AccessDenied, SpecError (with every fault found)."""
    require_control(user, experiment.project, experiment.owner_id, "editing")
    changes = edit.changes()
    _check(experiment, changes)
    if edit.priority is not None and edit.priority > 0:
        require(user, experiment.project, Role.OPERATOR, "a priority above 0")
    held = Experiment.objects.select_for_update(no_key=True, of=("self",)).get(pk=experiment.pk)
    before = {field: getattr(held, field) for field in changes}
    changed = {field: value for field, value in changes.items() if value != before[field]}
    if not changed:
        return
    Experiment.objects.filter(pk=experiment.pk).update(**changed)
    record(user, "experiment.edit", experiment, before={field: before[field] for field in changed}, after=changed)
    if "priority" in changed:
        transaction.on_commit(request_placement)


def _check(experiment: Experiment, changes: dict[str, Any]) -> None:
    """Name, question and tags obey the rules of the document."""
    priority = changes.get("priority", 0)
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        allowed = f"{LOWEST_PRIORITY} to {HIGHEST_PRIORITY}"
        raise SpecError([FieldError("priority", f"{priority} is no priority", allowed)])
    said = {field: value for field, value in changes.items() if field != "priority"}
    _, found = document_errors({**experiment.spec, **said})
    faults = [one for one in found if one.error.field.split(".")[0] in said]
    if faults:
        raise SpecError(merge_errors(faults))
