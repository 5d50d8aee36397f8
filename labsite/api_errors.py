"""One shape for every error of the REST API: `{"detail", "errors": [{"field", "message", "allowed"}]}`.

Exceptions of the parts below are turned into statuses here and nowhere else. The middleware does the same for answers
that never reach the API: unknown paths, wrong methods, refused hosts, crashes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ObjectDoesNotExist, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from experiments.errors import BadParameter, ExperimentError, IdempotencyConflict
from experiments.importing.upload import TooLarge
from experiments.selectors import ProjectUnclear
from experiments.services.traces import TraceRefused
from hardware.errors import HardwareError
from labsite.accounts.permissions import AccessDenied, NotAMember
from labsite.accounts.tokens import TokenRefused
from runners.document import SpecError, TextError
from runners.models import BadEntry

log = logging.getLogger(__name__)

PREFIX = "/api/"
DETAILS = {
    400: "bad request",
    401: "sign in, or send Authorization: Bearer <token>",
    403: "not allowed",
    404: "not found",
    405: "this method is not allowed here",
    413: "the body is too large",
    429: "too many requests",
    500: "the lab failed to answer; its log says why",
}
Errors = Sequence[dict[str, Any]]
Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def error_response(status: int, detail: str = "", errors: Errors = ()) -> JsonResponse:
    response = JsonResponse({"detail": detail or DETAILS.get(status, "failed"), "errors": list(errors)}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def one_error(field: str, message: str, allowed: Any = None) -> list[dict[str, Any]]:
    return [{"field": field, "message": message, "allowed": allowed}]


def answer_for(error: Exception) -> JsonResponse:
    """The answer to an exception that the API's parts raise; anything unknown is a 500 and is logged."""
    match error:
        case TextError():
            return error_response(400, str(error), [one.as_dict() for one in error.errors])
        case SpecError():
            detail = f"the document is refused: {len(error.errors)} fault{'s' * (len(error.errors) > 1)}"
            return error_response(422, detail, [one.as_dict() for one in error.errors])
        case ValidationError():
            return error_response(422, "the request is refused", [_parameter_fault(fault) for fault in error.errors])
        case BadEntry():
            faults = [{"field": field, "message": words, "allowed": allowed} for field, words, allowed in error.faults]
            return error_response(422, "the model's entry is refused", faults)
        case ObjectDoesNotExist() | Http404() | NotAMember():
            return error_response(404)
        case AccessDenied():
            return error_response(403, str(error))
        case ProjectUnclear():
            return error_response(400, str(error), one_error("project", str(error), error.allowed))
        case IdempotencyConflict():
            return error_response(409, str(error), one_error("Idempotency-Key", str(error)))
        case BadParameter() | TokenRefused():
            return error_response(422, str(error), one_error(error.field, error.message, error.allowed))
        case TraceRefused():
            lines = [{"field": field, "message": words, "allowed": None} for field, words in error.faults]
            return error_response(422, f"the trace is refused: {error.count} fault{'s' * (error.count > 1)}", lines)
        case TooLarge():
            return error_response(413, str(error), one_error("file", str(error)))
        case ExperimentError():
            return error_response(409, str(error))
        case HardwareError():
            return error_response(400, str(error), one_error(error.field, error.message, error.allowed))
        case RequestDataTooBig():
            return error_response(413)
        case SuspiciousOperation():
            return error_response(400)
        case HttpError():
            detail = str(error) if error.message != "Unauthorized" else ""
            return error_response(error.status_code, detail)
    log.error("the API failed", exc_info=error)
    return error_response(500)


def _parameter_fault(fault: dict[str, Any]) -> dict[str, Any]:
    """pydantic's fault in a parameter or body: where it is (without ninja's own source name), and the bound."""
    place, *path = fault["loc"]
    field = ".".join(str(part) for part in path if part != "body") or str(place)
    context = fault.get("ctx", {})
    allowed = {key: value for key, value in context.items() if isinstance(value, str | int | float)}
    return {"field": field, "message": fault["msg"], "allowed": allowed or None}


def handle_errors(api: NinjaAPI) -> None:
    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, _handle)


def _handle(request: HttpRequest, error: Exception | type[Exception]) -> JsonResponse:
    return answer_for(error if isinstance(error, Exception) else error())


@sync_and_async_middleware
def shape_api_errors(get_response: Sync | Async) -> Sync | Async:
    """Gives API errors that Django itself answered, as HTML or text, the API's shape."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            return _shaped(request, await get_response(request))

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        assert isinstance(response, HttpResponseBase)
        return _shaped(request, response)

    return respond


def _shaped(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    is_json = response.headers.get("Content-Type", "").startswith("application/json")
    if response.status_code < 400 or is_json or not request.path.startswith(PREFIX):
        return response
    shaped = error_response(response.status_code)
    for name in ("Allow", "WWW-Authenticate", "Vary"):
        if name in response.headers:
            shaped[name] = response.headers[name]
    return shaped
