"""Refuses requests that come too often: 429 with Retry-After, before anything is done.

Counted are the API, by user, by node, or by address for who shows no valid credentials; and attempts to sign in, by
address and by user name. Pages are not: they are behind a session, and their own scripts poll.
"""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from labsite.accounts.bearer import presented_token
from labsite.accounts.origin import client_address
from labsite.api_errors import PREFIX, error_response
from labsite.rate_limits import Limiter, Taken, limiter_of

NODE_PREFIX = "/api/v1/node/"
_TAKEN, _NAME_KEY = "_taken", "_sign_in_name"


class ThrottleMiddleware(MiddlewareMixin):
    """Must come after the session's user is known."""

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:
        if not request.path.startswith(PREFIX):
            return self._check_sign_in(request) if _is_sign_in(request) else None
        taken = _limiter().take(*_counted_for(request))
        if taken is None:
            return None
        setattr(request, _TAKEN, taken)
        return None if taken.allowed else _refusal(request, taken)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        taken: Taken | None = getattr(request, _TAKEN, None)
        for name, value in (taken.headers() if taken else {}).items():
            response[name] = value
        name_key: str | None = getattr(request, _NAME_KEY, None)
        if name_key and response.status_code == 302:
            _limiter().forgive("sign_in_name", name_key)
        return response

    def _check_sign_in(self, request: HttpRequest) -> HttpResponseBase | None:
        address = client_address(request) or ""
        name_key = f"{address} {_digest(request.POST.get('username', '').casefold())}"
        setattr(request, _NAME_KEY, name_key)
        for limit, key in (("sign_in", address), ("sign_in_name", name_key)):
            taken = _limiter().take(limit, key)
            if taken and not taken.allowed:
                setattr(request, _TAKEN, taken)
                return _refusal(request, taken)
        return None


def _limiter() -> Limiter:
    return limiter_of(settings.REDIS_URL, tuple(settings.RATE_LIMITS.items()))


def _is_sign_in(request: HttpRequest) -> bool:
    return request.method == "POST" and request.path == settings.LOGIN_URL


def _counted_for(request: HttpRequest) -> tuple[str, str]:
    """The limit, and who it is counted for. An agent's token is checked later: its digest is enough to count by."""
    authorization = request.headers.get("Authorization")
    if request.path.startswith(NODE_PREFIX) and authorization:
        return "node", _digest(authorization)
    if authorization:
        token = presented_token(request)
        user_id = token.user_id if token else None
    else:
        user_id = request.user.pk if settings.SESSION_COOKIE_NAME in request.COOKIES else None
    return ("user", str(user_id)) if user_id else ("anonymous", client_address(request) or "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _refusal(request: HttpRequest, taken: Taken) -> HttpResponse:
    said = f"too many requests: at most {taken.amount} in {taken.window_s} s; try again in {taken.reset_s} s"
    if request.path.startswith(PREFIX):
        return error_response(429, said)
    return render(request, "429.html", {"said": said}, status=429)
