"""Registers the experiments application. It wires nothing: no signals, no start-up work."""

from __future__ import annotations

from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "experiments"
    default_auto_field = "django.db.models.BigAutoField"
