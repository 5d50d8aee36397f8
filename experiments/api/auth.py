"""Who is asking: the owner of an API token, or whoever is signed in on this browser.

A request that names a token is judged by it alone. A session counts for writes only with Django's CSRF token.
"""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest
from ninja.errors import HttpError
from ninja.security import HttpBearer
from ninja.utils import check_csrf

from labsite.accounts.bearer import presented_token
from labsite.accounts.models import User


class PersonAuth(HttpBearer):
    """`Authorization: Bearer <token>`, or the session cookie with an X-CSRFToken header."""

    # The interactive docs look for it, and then send the CSRF token with what is tried out there.
    csrf = True

    def __call__(self, request: HttpRequest) -> User | None:
        if "Authorization" in request.headers:
            return cast("User | None", super().__call__(request))
        if not request.user.is_authenticated:
            return None
        if check_csrf(request) is not None:
            raise HttpError(403, "the CSRF token is missing or wrong: send it in the X-CSRFToken header")
        return request.user

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        found = presented_token(request)
        return found.user if found else None


def person(request: HttpRequest) -> User:
    """The user that PersonAuth let in."""
    return cast("User", request.auth)  # type: ignore[attr-defined]
