"""Who gets into the admin: superusers, and whoever is an operator or admin of some project.

What they see there, each model's admin decides by role; Django's own groups and permissions are not used.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from labsite.accounts.models import Role
from labsite.accounts.permissions import has_role_anywhere
from labsite.accounts.signing_in import SignOutView


class LabAdminSite(AdminSite):
    site_header = "Inference lab"
    site_title = "Inference lab"
    index_title = "Operation"

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """There is one place to sign in; who is signed in and comes here has no role that opens the admin."""
        next_page = request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index")
        if not request.user.is_authenticated:
            return redirect_to_login(next_page)
        if not self.has_permission(request):
            raise PermissionDenied("The admin needs the role of an operator or admin in a project.")
        return redirect("admin:index")

    def logout(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        return SignOutView.as_view()(request)

    def has_permission(self, request: HttpRequest) -> bool:
        user = request.user
        return user.is_active and (user.is_superuser or has_role_anywhere(user, Role.OPERATOR))
