"""The control plane's Celery application: placing and reaping. Nodes run an application of their own."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labsite.settings")

app = Celery("labsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["experiments"])
