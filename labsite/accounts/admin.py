"""The admin of people: users, projects, API tokens, and the audit log. Who is in which project: `admin_members`.

A superuser sees all of it; a project's admin its members; anyone who gets in, his own tokens.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from labsite.accounts.admin_bases import MOST_INLINE, LongList, ReadOnly
from labsite.accounts.admin_members import ByProjectAdminRole, MembershipInline, OwnMembershipInline
from labsite.accounts.audit import entries_visible_to, record
from labsite.accounts.audited_admin import AuditedAdmin
from labsite.accounts.models import ApiToken, AuditEntry, Project, Role, User
from labsite.accounts.permissions import has_role_anywhere, projects_of
from labsite.accounts.tokens import TokenRefused, check_token, create_token, opening, revoke_token

# Roles say who may do what; groups would be a second place for the same rules.
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(LongList, AuditedAdmin, DjangoUserAdmin):  # type: ignore[type-arg]
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Access", {"fields": ("is_active", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    list_display = ("username", "email", "is_active", "is_superuser", "last_login")
    list_filter = ("is_active", "is_superuser")
    search_fields = ("username", "first_name", "last_name", "email", "projects__slug")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    actions = ("deactivate", "activate")

    def get_inlines(self, request: HttpRequest, obj: User | None) -> list[Any]:
        few = obj is None or obj.memberships.count() <= MOST_INLINE
        return [OwnMembershipInline] if few else []

    @admin.action(description="Deactivate the selected users", permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """They are out at once: neither their sessions nor their tokens open anything. Nobody deactivates himself."""
        self._set_active(request, queryset.exclude(username=request.user.get_username()), False)

    @admin.action(description="Activate the selected users", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        self._set_active(request, queryset, True)

    @transaction.atomic
    def _set_active(self, request: HttpRequest, users: QuerySet[User], active: bool) -> None:
        changed = list(users.filter(is_active=not active))
        for user in changed:
            user.is_active = active
            user.save(update_fields=["is_active"])
            record(request.user, "user.activate" if active else "user.deactivate", user)
        messages.success(request, f"{len(changed)} user(s) {'activated' if active else 'deactivated'}.")


@admin.register(Project)
class ProjectAdmin(LongList, AuditedAdmin, ByProjectAdminRole, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}
    fields = ("name", "slug", "members_shown")

    def get_inlines(self, request: HttpRequest, obj: Project | None) -> list[Any]:
        few = obj is None or obj.memberships.count() <= MOST_INLINE
        return [MembershipInline] if few else []

    @admin.display(description="members")
    def members_shown(self, project: Project) -> str:
        if project.pk is None:
            return "–"
        address = f"{reverse('admin:accounts_membership_changelist')}?project__id__exact={project.pk}"
        return format_html('<a href="{}">{} in all</a>', address, project.memberships.count())

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
        return ("slug", "members_shown") if obj else ("members_shown",)


class ApiTokenForm(forms.ModelForm):  # type: ignore[type-arg]
    """Says beside the field what `create_token` would refuse."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        try:
            check_token(cleaned.get("name", ""), cleaned.get("expires_at"))
        except TokenRefused as error:
            self.add_error(error.field, f"{error.message}; allowed: {error.allowed}")
        return cleaned


class TokenState(admin.SimpleListFilter):
    title = "state"
    parameter_name = "live"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "valid"), ("no", "expired or revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        if self.value() not in ("yes", "no"):
            return queryset
        return opening(queryset) if self.value() == "yes" else queryset.exclude(pk__in=opening(queryset).values("pk"))


@admin.register(ApiToken)
class ApiTokenAdmin(LongList, admin.ModelAdmin):  # type: ignore[type-arg]
    """The token is shown once, when it is made; afterwards it can only be revoked."""

    list_display = ("prefix", "name", "user", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_filter = (TokenState,)
    list_select_related = ("user",)
    search_fields = ("prefix", "name", "user__username")
    form = ApiTokenForm
    fields = ("user", "name", "expires_at")
    actions = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        tokens = super().get_queryset(request)
        return tokens if request.user.is_superuser else tokens.filter(user_id=request.user.pk)

    def get_autocomplete_fields(self, request: HttpRequest) -> tuple[str, ...]:
        # whoever makes tokens for himself alone has nobody to choose from
        return ("user",) if request.user.is_superuser else ()

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
class AuditEntryAdmin(LongList, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    """The audit log, to be read alone: by a superuser all of it, by an admin that of his projects."""

    list_display = ("at", "username", "action", "object_type", "object_name", "project", "via", "address")
    list_filter = ("via", "object_type", "at")
    list_select_related = ("project",)
    search_fields = ("username", "action", "object_name", "object_id")
    readonly_fields = ("at", "user", "username", "project", "action", "object_type", "object_id", "object_name",
                       "via", "address", "detail")  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        return entries_visible_to(request.user).order_by("-id")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_role_anywhere(request.user, Role.ADMIN)

    def has_view_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        allowed = self.has_module_permission(request)
        return allowed if obj is None else entries_visible_to(request.user).filter(pk=obj.pk).exists()
