"""The admin of who belongs to which project. People are named by their user names, so that no form lists them all."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest

from labsite.accounts.admin_bases import LongList
from labsite.accounts.audited_admin import AuditedAdmin
from labsite.accounts.models import Membership, Project, Role, User
from labsite.accounts.permissions import has_role_anywhere, projects_of


class MembershipForm(forms.ModelForm):  # type: ignore[type-arg]
    """A new member is named; of a present one the role alone changes."""

    username = forms.CharField(max_length=150, label="user name")

    class Meta:
        model = Membership
        fields = ("role",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("username", "role"):  # an inline's row has no labels of its own
            self.fields[name].widget.attrs["aria-label"] = self.fields[name].label or name
        if self.instance.pk:
            self.initial["username"] = self.instance.user.get_username()
            self.fields["username"].disabled = True

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        if self.instance.pk is None:
            user = User.objects.filter(username=name, is_active=True).first()
            if user is None:
                raise ValidationError(f"no active user is named {name!r}")
            self.instance.user = user
        return name

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        project = cleaned.get("project") or self.instance.project_id
        named = self.instance.user_id if self.instance.pk is None else None
        if named and project and Membership.objects.filter(project=project, user=named).exists():
            self.add_error("username", f"{cleaned['username']} is in this project already: change the role there")
        return cleaned


class MembershipFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        if "DELETE" in form.fields:
            form.fields["DELETE"].widget.attrs["aria-label"] = "remove this member"

    def clean(self) -> None:
        super().clean()
        named: set[str] = set()
        for form in self.forms:
            name = getattr(form, "cleaned_data", {}).get("username")
            if name in named:
                form.add_error("username", f"{name} is named twice")
            if name:
                named.add(name)


class ByProjectAdminRole:
    """Permissions of things that belong to the admins of a project."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_role_anywhere(request.user, Role.ADMIN)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        mine = projects_of(request.user, Role.ADMIN)
        if obj is None:
            return mine.exists()
        return mine.filter(pk=obj.pk if isinstance(obj, Project) else obj.project_id).exists()


class MembershipInline(ByProjectAdminRole, admin.TabularInline):  # type: ignore[type-arg]
    model = Membership
    form = MembershipForm
    formset = MembershipFormSet
    fields = ("username", "role")
    extra = 1

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return super().get_queryset(request).select_related("user", "project").order_by("user__username")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request, obj)


class OwnMembershipInline(admin.TabularInline):  # type: ignore[type-arg]
    """On a user's page, which is for superusers alone."""

    model = Membership
    fields = ("project", "role")
    autocomplete_fields = ("project",)
    extra = 0


@admin.register(Membership)
class MembershipAdmin(LongList, ByProjectAdminRole, AuditedAdmin, admin.ModelAdmin):  # type: ignore[type-arg]
    """The members of one's projects, however many there are."""

    form = MembershipForm
    list_display = ("user", "project", "role")
    list_filter = ("role",)
    list_select_related = ("user", "project")
    search_fields = ("user__username", "project__name", "project__slug")
    autocomplete_fields = ("project",)

    def get_fields(self, request: HttpRequest, obj: Membership | None = None) -> tuple[str, ...]:
        return ("project", "username", "role")

    def get_readonly_fields(self, request: HttpRequest, obj: Membership | None = None) -> tuple[str, ...]:
        return ("project",) if obj else ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return super().get_queryset(request).filter(project__in=projects_of(request.user, Role.ADMIN))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return has_role_anywhere(request.user, Role.ADMIN)

    def has_delete_permission(self, request: HttpRequest, obj: Membership | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "project":
            kwargs["queryset"] = projects_of(request.user, Role.ADMIN)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)
