"""REST for the audit log: who did what in the projects whose admin the caller is."""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import Field

from experiments.api.auth import person
from experiments.api.listing import Moment, Text, given
from experiments.api.paging import PageQuery, read_page
from experiments.api.schemas import CONTROL_ERRORS, AuditEntryOut, AuditPage
from labsite.accounts.audit import entries_visible_to
from labsite.accounts.models import AuditEntry, Role
from labsite.accounts.permissions import AccessDenied, has_role_anywhere
from labsite.error_body import ErrorBody

router = Router(tags=["audit"])


class AuditQuery(PageQuery):
    sort: Literal["at", "-at"] = "-at"
    actor: Text | None = Field(default=None, description="User name.")
    action: Text | None = Field(default=None, description="Exactly, as `experiment.cancel`; or its beginning, `run.`.")
    object_type: Text | None = Field(default=None, description="As `experiment`, `node`, `apitoken`.")
    object_id: Text | None = None
    project: Text | None = Field(default=None, description="Slug.")
    via: Literal["page", "api", "admin", "node", "system"] | None = None
    after: Moment | None = None
    before: Moment | None = None


@router.get("/audit", response={200: AuditPage, CONTROL_ERRORS: ErrorBody}, summary="Who did what, for admins")
def list_entries(request: HttpRequest, asked: Query[AuditQuery]) -> AuditPage:
    user = person(request)
    if not has_role_anywhere(user, Role.ADMIN):
        raise AccessDenied("reading the audit log needs the role admin in a project")
    conditions = {
        "username": asked.actor,
        "action__startswith": asked.action,
        "object_type": asked.object_type,
        "object_id": asked.object_id,
        "project__slug": asked.project,
        "via": asked.via,
        "at__gt": asked.after,
        "at__lt": asked.before,
    }
    page = read_page(entries_visible_to(user).filter(**given(conditions)), {"at": "pk"}, asked)
    return AuditPage(items=[_entry_out(entry) for entry in page.items], next=page.next)


def _entry_out(entry: AuditEntry) -> AuditEntryOut:
    return AuditEntryOut(
        id=entry.pk,
        at=entry.at,
        actor=entry.username or None,
        action=entry.action,
        object_type=entry.object_type,
        object_id=entry.object_id,
        object_name=entry.object_name,
        project=entry.project.slug if entry.project else None,
        via=entry.via,
        address=entry.address,
        detail=entry.detail,
    )
