"""Who gets into the admin: superusers, and whoever is an operator or admin of some project.

What they see there, each model's admin decides by role; Django's own groups and permissions are not used.
"""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest

from labsite.accounts.models import Role
from labsite.accounts.permissions import has_role_anywhere


class LabAdminSite(AdminSite):
    site_header = "Inference lab"
    site_title = "Inference lab"
    index_title = "Operation"
    # Django's own form lets staff in alone; here the role decides, in has_permission
    login_form = AuthenticationForm

    def has_permission(self, request: HttpRequest) -> bool:
        user = request.user
        return user.is_active and (user.is_superuser or has_role_anywhere(user, Role.OPERATOR))
