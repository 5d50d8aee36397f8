"""Registers the accounts application. It wires nothing: no signals, no start-up work."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "labsite.accounts"
    default_auto_field = "django.db.models.BigAutoField"
