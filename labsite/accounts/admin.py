"""The admin of people: users, projects with their members, API tokens, and the audit log.

A superuser sees all of it; a project's admin its members; anyone who gets in, his own tokens.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from labsite.accounts.audit import entries_visible_to
from labsite.accounts.audited_admin import AuditedAdmin
from labsite.accounts.models import ApiToken, AuditEntry, Membership, Project, Role, User
from labsite.accounts.permissions import has_role_anywhere, projects_of
from labsite.accounts.tokens import TokenRefused, check_token, create_token, revoke_token

# Roles say who may do what; groups would be a second place for the same rules.
admin.site.unregister(Group)


class OwnMembershipInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Membership
    extra = 0


@admin.register(User)
class UserAdmin(AuditedAdmin, DjangoUserAdmin):  # type: ignore[type-arg]
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Access", {"fields": ("is_active", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    list_display = ("username", "email", "is_active", "is_superuser", "last_login")
    list_filter = ("is_active", "is_superuser", "projects")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    inlines = (OwnMembershipInline,)


class ByProjectAdminRole:
    """Permissions of things that belong to the admins of a project."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_role_anywhere(request.user, Role.ADMIN)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        mine = projects_of(request.user, Role.ADMIN)
        return mine.exists() if obj is None else mine.filter(pk=obj.pk).exists()


class MembershipInline(ByProjectAdminRole, admin.TabularInline):  # type: ignore[type-arg]
    model = Membership
    extra = 1

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)


@admin.register(Project)
class ProjectAdmin(AuditedAdmin, ByProjectAdminRole, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}
    inlines = (MembershipInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Project]:
        return super().get_queryset(request).filter(pk__in=projects_of(request.user, Role.ADMIN))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and request.user.is_superuser

    def has_delete_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        return False

    def get_prepopulated_fields(self, request: HttpRequest, obj: Project | None = None) -> dict[str, Any]:
        return {} if obj else self.prepopulated_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Project | None = None) -> tuple[str, ...]:
        # the slug is in people's scripts (?project=…)
        return ("slug",) if obj else ()


class ApiTokenForm(forms.ModelForm):  # type: ignore[type-arg]
    """Says beside the field what `create_token` would refuse."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        try:
            check_token(cleaned.get("name", ""), cleaned.get("expires_at"))
        except TokenRefused as error:
            self.add_error(error.field, f"{error.message}; allowed: {error.allowed}")
        return cleaned


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The token is shown once, when it is made; afterwards it can only be revoked."""

    list_display = ("prefix", "name", "user", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("user",)
    list_select_related = ("user",)
    form = ApiTokenForm
    fields = ("user", "name", "expires_at")
    actions = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        tokens = super().get_queryset(request)
        return tokens if request.user.is_superuser else tokens.filter(user_id=request.user.pk)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        if not self.admin_site.has_permission(request):
            return False
        return obj is None or request.user.is_superuser or obj.user_id == request.user.pk

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False

    def formfield_for_foreignkey(
        self, db_field: Any, request: HttpRequest, **kwargs: Any
    ) -> forms.ModelChoiceField[Any] | None:
        if db_field.name == "user":
            kwargs["initial"] = request.user.pk
            users = User.objects.filter(is_active=True)
            # A token is all its user can do: only a superuser makes one for somebody else.
            if not request.user.is_superuser:
                users = users.filter(username=request.user.get_username())
            kwargs["queryset"] = users
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        new = create_token(obj.user, obj.name, obj.expires_at, by=request.user)
        obj.pk, obj.prefix = new.record.pk, new.record.prefix
        text = format_html("The token of {}, shown this once: <code>{}</code>", obj.user, new.plain)
        messages.warning(request, text)

    @admin.action(description="Revoke the selected tokens", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        for token in queryset:
            revoke_token(token, by=request.user)
        messages.success(request, f"{len(queryset)} token(s) revoked.")


@admin.register(AuditEntry)
class AuditEntryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The audit log, to be read alone: by a superuser all of it, by an admin that of his projects."""

    list_display = ("at", "username", "action", "object_type", "object_name", "project", "via", "address")
    list_filter = ("via", "object_type", "at")
    list_select_related = ("project",)
    search_fields = ("username", "action", "object_name", "object_id")
    show_full_result_count = False
    readonly_fields = ("at", "user", "username", "project", "action", "object_type", "object_id", "object_name",
                       "via", "address", "detail")  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        return entries_visible_to(request.user).order_by("-id")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_role_anywhere(request.user, Role.ADMIN)

    def has_view_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        allowed = self.has_module_permission(request)
        return allowed if obj is None else entries_visible_to(request.user).filter(pk=obj.pk).exists()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        return False
