"""Puts the lab's own admin site in the place of Django's. Named in INSTALLED_APPS instead of django.contrib.admin."""

from __future__ import annotations

from django.contrib.admin.apps import AdminConfig


class LabAdminConfig(AdminConfig):
    default_site = "labsite.accounts.admin_site.LabAdminSite"
