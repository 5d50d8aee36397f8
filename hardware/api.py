"""REST for an agent without credentials: joining. The rest of its API needs runs (experiments.api.node)."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Router
from ninja.errors import HttpError

from hardware import services
from hardware.errors import BrokerUnavailable, JoinRefused, WrongProtocol
from hardware.messages import JoinAnswer, JoinRequest
from hardware.protocol import check_protocol
from labsite.error_body import ErrorBody
from runners.protocol import STATUS

router = Router(tags=["node"])

JOIN_ERRORS = frozenset({400, 403, 413, 422, STATUS, 429, 503})


def speaks_our_protocol(request: HttpRequest) -> bool:
    """Asked before the body is read. Opens nothing: the join token in the body does."""
    try:
        check_protocol(request)
    except WrongProtocol as error:
        raise HttpError(STATUS, error.message) from error
    return True


@router.post(
    "/join",
    response={200: JoinAnswer, JOIN_ERRORS: ErrorBody},
    auth=speaks_our_protocol,
    summary="Join as a node, once, with a join token",
)
def join(request: HttpRequest, response: HttpResponse, body: JoinRequest) -> JoinAnswer:
    response["Cache-Control"] = "no-store"
    try:
        return services.join(body)
    except JoinRefused as error:
        raise HttpError(403, str(error)) from error
    except BrokerUnavailable as error:
        raise HttpError(503, str(error)) from error
