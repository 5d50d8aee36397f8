"""What every endpoint answers with: JSON, OpenAI's error object for every failure, the id of the request."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from runners.runtime.serving.errors import ApiError, bad_field
from runners.runtime.serving.service import Service, new_request_id

MAX_BODY_BYTES = 8 * 1024 * 1024
SERVICE = web.AppKey("service", Service)
REQUEST_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
SERVER_FAULT = ApiError(500, "the server failed on this request; its log says why", kind="server_error")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


def dump(value: Any) -> bytes:
    """JSON in UTF-8. What is no Unicode, such as a client's own words in an error, becomes JSON's escape for it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=dump(value), status=status, headers=headers, content_type="application/json")


def error_answer(error: ApiError) -> web.Response:
    return json_answer(error.body(), error.status, error.headers())


@web.middleware
async def openai_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure before the first byte of an answer becomes an error object."""
    try:
        return await handler(request)
    except ApiError as error:
        return error_answer(error)
    except web.HTTPRequestEntityTooLarge:
        return error_answer(ApiError(413, f"the body is larger than {MAX_BODY_BYTES} bytes", code="body_too_large"))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return error_answer(ApiError(error.status, f"{request.method} {request.path}: {error.reason}"))
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return error_answer(SERVER_FAULT)


def request_id_of(request: web.Request) -> str:
    """The client's X-Request-Id, or a new one. Raises ApiError 400 for one that is not plain."""
    given = request.headers.get("X-Request-Id")
    if given is None:
        return new_request_id()
    if not REQUEST_ID.fullmatch(given):
        raise bad_field("X-Request-Id", "must be 1 to 128 characters of A–Z a–z 0–9 . _ : / -")
    return given


def int_query(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,20}", text) or not low <= int(text) <= high:
        raise bad_field(name, f"must be a whole number from {low} to {high} (got {text[:40]!r})")
    return int(text)
