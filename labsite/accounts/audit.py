"""The audit log: one entry for each thing that somebody changed or took away, written with the change itself.

Services call `record` inside their transaction, so that there is no change without its entry and no entry without its
change. Entries are read through `entries_visible_to`; nothing edits or deletes them. Reads are not recorded, but for
exports.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Model, QuerySet

from labsite.accounts.models import AuditEntry, Project, Role, User
from labsite.accounts.origin import present_origin
from labsite.accounts.permissions import Person, projects_of

NAME_LENGTH = 200


def record(
    actor: Person | None,
    action: str,
    target: Model,
    *,
    project: Project | None = None,
    via: str | None = None,
    address: str | None = None,
    **detail: Any,
) -> AuditEntry:
    """Notes that `actor` (None: the lab itself) did `action` (`experiment.cancel`) to `target`.

    The project is the target's own where none is given; `via` and `address` are those of the present request. `detail`
    must be JSON, without secrets. Call it in the transaction of the change.
    """
    came = present_origin()
    user = actor if isinstance(actor, User) else None
    return AuditEntry.objects.create(
        user=user,
        username=user.get_username() if user else "",
        project=project or project_of(target),
        action=action,
        object_type=target._meta.model_name or "",
        object_id="" if target.pk is None else str(target.pk),
        object_name=str(target)[:NAME_LENGTH],
        via=via or came.via,
        address=address or came.address,
        detail=detail,
    )


def project_of(target: Model) -> Project | None:
    """The project that a thing belongs to, where its model says so."""
    if isinstance(target, Project):
        return target
    found = getattr(target, "project", None)
    return found if isinstance(found, Project) else None


def entries_visible_to(user: Person) -> QuerySet[AuditEntry]:
    """The entries of the projects whose admin he is; for a superuser every entry, also those of no project."""
    entries = AuditEntry.objects.select_related("user", "project")
    if not isinstance(user, User) or not user.is_active:
        return entries.none()
    if user.is_superuser:
        return entries
    return entries.filter(project__in=projects_of(user, Role.ADMIN).values("pk"))
