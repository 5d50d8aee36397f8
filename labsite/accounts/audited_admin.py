"""The admin's part of the audit log: what is added, changed or deleted there is recorded with the change.

Django's admin calls these hooks inside the transaction of the change; a change's message names the fields, and the
rows of its inlines (a member's role among them).
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import LogEntry
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from labsite.accounts.audit import record


class AuditedAdmin:
    """Put before `admin.ModelAdmin` among the bases of a model's admin."""

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> LogEntry:
        record(request.user, f"{obj._meta.model_name}.add", obj, changes=message)
        entry: LogEntry = super().log_addition(request, obj, message)  # type: ignore[misc]
        return entry

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> LogEntry:
        # An unchanged form that was sent is no change; an action's message is text.
        if message:
            record(request.user, f"{obj._meta.model_name}.change", obj, changes=message)
        entry: LogEntry = super().log_change(request, obj, message)  # type: ignore[misc]
        return entry

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Model]) -> Any:
        for obj in queryset:
            record(request.user, f"{obj._meta.model_name}.delete", obj)
        return super().log_deletions(request, queryset)  # type: ignore[misc]
