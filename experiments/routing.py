"""Addresses of the sockets."""

from __future__ import annotations

from django.urls import re_path

from experiments.consumers import ExperimentSocket, NoSocket, RunSocket

websocket_urlpatterns = [
    re_path(r"^ws/runs/(?P<id>[0-9]{1,18})$", RunSocket.as_asgi()),
    re_path(r"^ws/experiments/(?P<id>[0-9]{1,18})$", ExperimentSocket.as_asgi()),
    re_path(r"", NoSocket.as_asgi()),
]
