"""The admin of chips: a record is edited on a form by its sections, and each edit makes a new version.

Operators look; superusers edit and add, as the catalog is every project's. Older versions are read only, and nothing
is deleted: runs keep the version that they were claimed with.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString

from hardware.chip_form import ChipForm, fieldsets_for, form_for
from hardware.errors import ChipChanged
from hardware.models import Chip
from hardware.services import add_chip, edit_chip
from labsite.accounts.admin_bases import LongList
from labsite.accounts.models import Role, User
from labsite.accounts.permissions import has_role_anywhere


def is_operator(request: HttpRequest) -> bool:
    return request.user.is_active and (request.user.is_superuser or has_role_anywhere(request.user, Role.OPERATOR))


def as_json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))


@admin.register(Chip)
class ChipAdmin(LongList, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "chip_id", "vendor", "kind", "version", "current", "origin", "edited_by")
    list_filter = ("current", "origin", "vendor", "kind")
    search_fields = ("name", "chip_id", "vendor")
    list_select_related = ("edited_by",)
    shown = ("name", "chip_id", "vendor", "kind", "version", "current", "origin", "edited_by", "created_at")
    readonly_fields = ("record_shown",)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_operator(request)

    def has_view_permission(self, request: HttpRequest, obj: Chip | None = None) -> bool:
        return is_operator(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and request.user.is_superuser

    def has_change_permission(self, request: HttpRequest, obj: Chip | None = None) -> bool:
        return self.has_add_permission(request) and (obj is None or obj.current)

    def has_delete_permission(self, request: HttpRequest, obj: Chip | None = None) -> bool:
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Chip], search_term: str
    ) -> tuple[QuerySet[Chip], bool]:
        found, doubled = super().get_search_results(request, queryset, search_term)
        # a node stands for a chip as it is known now
        return (found.filter(current=True) if request.path.endswith("/autocomplete/") else found), doubled

    def _is_edited(self, request: HttpRequest, obj: Chip | None) -> bool:
        return self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)

    def get_fieldsets(self, request: HttpRequest, obj: Chip | None = None) -> Any:
        return (
            fieldsets_for(obj)
            if self._is_edited(request, obj)
            else ((None, {"fields": (*self.shown, "record_shown")}),)
        )

    def get_form(self, request: HttpRequest, obj: Chip | None = None, change: bool = False, **kwargs: Any) -> Any:
        return form_for(obj) if self._is_edited(request, obj) else super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Chip, form: Any, change: bool) -> None:
        """Through the services: an edit leaves its row as it is and makes another; a faulty one never comes so far."""
        assert isinstance(form, ChipForm) and isinstance(request.user, User)
        data = form.cleaned_data["record_data"]
        if change:
            made = edit_chip(obj, data, by=request.user)
            self.message_user(request, _said(obj, made), messages.SUCCESS)
        else:
            made = add_chip(data, by=request.user)
        # what follows (the log's entry, the next page) is about the version that was made
        obj.__dict__.update({field.attname: getattr(made, field.attname) for field in Chip._meta.concrete_fields})

    def changeform_view(
        self, request: HttpRequest, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """An edit of a version that is no longer current leads to the one that is, with nothing written."""
        edited = self.get_object(request, unquote(object_id)) if object_id else None
        if request.method == "POST" and edited is not None and not edited.current and self.has_add_permission(request):
            return self._lead_to_current(request, edited)
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ChipChanged:
            if edited is None:
                raise
            return self._lead_to_current(request, edited)

    def _lead_to_current(self, request: HttpRequest, edited: Chip) -> HttpResponse:
        current = Chip.objects.get(chip_id=edited.chip_id, current=True)
        text = f"Not saved: {edited.chip_id} has changed meanwhile. This is version {current.version}, the current one."
        self.message_user(request, text, messages.ERROR)
        return redirect("admin:hardware_chip_change", current.pk)

    def response_change(self, request: HttpRequest, obj: Chip) -> HttpResponse:
        if "_continue" in request.POST:
            return redirect("admin:hardware_chip_change", obj.pk)
        return super().response_change(request, obj)

    @admin.display(description="record")
    def record_shown(self, chip: Chip) -> SafeString:
        return as_json(chip.record)


def _said(was: Chip, made: Chip) -> str:
    if was.pk == made.pk:
        return "Nothing differs, so there is no new version."
    return f"Version {made.version} is the current one; runs keep the version that they were claimed with."
