"""Registers the hardware application. It wires nothing: no signals, no start-up work."""

from __future__ import annotations

from django.apps import AppConfig


class HardwareConfig(AppConfig):
    name = "hardware"
    default_auto_field = "django.db.models.BigAutoField"
