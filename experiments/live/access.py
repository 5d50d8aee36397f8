"""Who may open a socket, asked once when it opens: an API token, or the session of a page of this very site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from labsite.accounts.models import User
from labsite.accounts.tokens import authenticate_token

NOT_SIGNED_IN = 4401
FORBIDDEN = 4403
NOT_FOUND = 4404
BAD_REQUEST = 4400


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def origin_is_ours(headers: Mapping[str, str]) -> bool:
    """A browser always names the page's origin; a socket opened by another site's page would carry our cookie."""
    origin = headers.get("origin")
    if origin is None:
        return False
    try:
        host = urlsplit(origin).netloc
    except ValueError:  # no address at all, such as http://[
        return False
    return host == headers.get("host") or origin in settings.CSRF_TRUSTED_ORIGINS


def person_of(scope: Mapping[str, Any]) -> User | None:
    """The user of the bearer token; without one, the session's. Blocking. None for nobody."""
    authorization = headers_of(scope).get("authorization")
    if authorization is not None:
        kind, _, token = authorization.partition(" ")
        return authenticate_token(token) if kind.lower() == "bearer" else None
    user = scope["user"]
    return user if user.is_authenticated and user.is_active else None
