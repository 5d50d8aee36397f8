"""By which way and from where the present request came, for the audit log and the rate limits.

A middleware notes it for as long as the request lasts, so that services need not be told. What no request caused
(the control worker, a shell) comes from `system`. It decides nothing about what is allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

# The first that the path begins with.
WAYS = (("/api/v1/node/", "node"), ("/api/", "api"), ("/admin/", "admin"))


@dataclass(frozen=True)
class Origin:
    """`via` is page, api, admin, node or system; `address` the client's IP address, where there is one."""

    via: str = "system"
    address: str | None = None


NO_REQUEST = Origin()
_present: ContextVar[Origin] = ContextVar("origin", default=NO_REQUEST)


def present_origin() -> Origin:
    return _present.get()


@contextmanager
def origin(came: Origin) -> Iterator[None]:
    """What happens inside came this way."""
    token = _present.set(came)
    try:
        yield
    finally:
        _present.reset(token)


def origin_of(request: HttpRequest) -> Origin:
    via = next((name for prefix, name in WAYS if request.path.startswith(prefix)), "page")
    return Origin(via, client_address(request))


def client_address(request: HttpRequest) -> str | None:
    """The peer's address as the web server tells it (a proxy's word counts where uvicorn trusts that proxy)."""
    try:
        return str(ipaddress.ip_address(request.META.get("REMOTE_ADDR", "").partition("%")[0]))
    except ValueError:  # a Unix socket, or no peer at all
        return None


@sync_and_async_middleware
def note_origin(get_response: Sync | Async) -> Sync | Async:
    """Notes where the request came from while it is answered."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            with origin(origin_of(request)):
                answered: HttpResponseBase = await get_response(request)
                return answered

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        with origin(origin_of(request)):
            response = get_response(request)
            assert isinstance(response, HttpResponseBase)
            return response

    return respond
