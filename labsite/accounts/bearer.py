"""The API token that a request presents, looked up once however many parts ask for it."""

from __future__ import annotations

from django.http import HttpRequest

from labsite.accounts.models import ApiToken
from labsite.accounts.tokens import find_token

_HELD = "_presented_token"


def presented_token(request: HttpRequest) -> ApiToken | None:
    """The live token of `Authorization: Bearer …`; None where there is none, or one that opens nothing."""
    if not hasattr(request, _HELD):
        setattr(request, _HELD, _look_up(request))
    found: ApiToken | None = getattr(request, _HELD)
    return found


def _look_up(request: HttpRequest) -> ApiToken | None:
    scheme, _, plain = request.headers.get("Authorization", "").partition(" ")
    return find_token(plain) if scheme.lower() == "bearer" and plain else None
