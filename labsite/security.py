"""The Content-Security-Policy header, on every response that did not set one of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def policy_header() -> str:
    return "; ".join(f"{name} {sources}" for name, sources in settings.CONTENT_SECURITY_POLICY.items())


@sync_and_async_middleware
def content_security_policy(get_response: Sync | Async) -> Sync | Async:
    header = policy_header()

    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            response: HttpResponseBase = await get_response(request)
            response.headers.setdefault("Content-Security-Policy", header)
            return response

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        assert isinstance(response, HttpResponseBase)
        response.headers.setdefault("Content-Security-Policy", header)
        return response

    return respond
