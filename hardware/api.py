"""REST for an agent without credentials: joining. The rest of its API needs runs (experiments.api.node)."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Router
from ninja.errors import HttpError

from hardware import services
from hardware.errors import BrokerUnavailable, JoinRefused
from hardware.messages import JoinAnswer, JoinRequest

router = Router(tags=["node"])


@router.post("/join", response=JoinAnswer, auth=None, summary="Join as a node, once, with a join token")
def join(request: HttpRequest, response: HttpResponse, body: JoinRequest) -> JoinAnswer:
    response["Cache-Control"] = "no-store"
    try:
        return services.join(body)
    except JoinRefused as error:
        raise HttpError(403, str(error)) from error
    except BrokerUnavailable as error:
        raise HttpError(503, str(error)) from error
