"""The web process: HTTP through Django, sockets through Channels with the session's user."""

from __future__ import annotations

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labsite.settings")
http = get_asgi_application()

# Only now: it imports models, and Django is set up by the line above.
from experiments.routing import websocket_urlpatterns  # noqa: E402
from labsite.body_limit import BodyLimit  # noqa: E402

sockets = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
application = ProtocolTypeRouter({"http": BodyLimit(http), "websocket": sockets})
