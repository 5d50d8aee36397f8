"""What several admins share: being read only, and pages that stay small however many rows there are."""

from __future__ import annotations

from django.db.models import Model
from django.http import HttpRequest

PER_PAGE = 50
# Rows of an inline: each is a form of several fields, and Django takes a thousand fields at most.
MOST_INLINE = 50


class LongList:
    """Put before `admin.ModelAdmin` among the bases: pages of a list without a count of what the filters left out."""

    list_per_page = PER_PAGE
    list_max_show_all = PER_PAGE
    show_full_result_count = False


class ReadOnly:
    """Nothing is added, changed or deleted here; what can be done is done by actions, through the services."""

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
