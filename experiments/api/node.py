"""REST for agents: the lease with its orders, and the claim of a run. Only a node's own token opens it."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Path, Router
from ninja.errors import HttpError
from ninja.security import HttpBearer

from experiments import services
from experiments.api.traces import DOWNLOAD, file_of
from experiments.errors import ClaimRefused
from experiments.models import Attempt, AttemptState
from experiments.services.node_lease import renew_lease
from hardware.errors import UnknownNodeToken, WrongProtocol
from hardware.messages import AttemptRef, Heartbeat, HeartbeatAnswer
from hardware.models import Node
from hardware.protocol import check_protocol
from hardware.services import authenticate_node
from labsite.error_body import ErrorBody
from runners.protocol import STATUS
from runners.spec import RunSpec

NODE_ERRORS = frozenset({400, 401, 413, 422, STATUS, 429})


class NodeToken(HttpBearer):
    """The agent's token; the request's `auth` is then its Node. Its protocol is checked before a body is read."""

    def authenticate(self, request: HttpRequest, token: str) -> Node:
        try:
            node = authenticate_node(token)
            check_protocol(request, node)
        except UnknownNodeToken as error:
            raise HttpError(401, error.message) from error
        except WrongProtocol as error:
            raise HttpError(STATUS, error.message) from error
        return node


class NodeRequest(HttpRequest):
    auth: Node


router = Router(tags=["node"], auth=NodeToken())


@router.post(
    "/heartbeat",
    response={200: HeartbeatAnswer, NODE_ERRORS: ErrorBody},
    summary="Renew the node's lease and get its orders",
)
def heartbeat(request: NodeRequest, body: Heartbeat) -> HeartbeatAnswer:
    return renew_lease(request.auth, body)


@router.post(
    "/claim",
    response={200: RunSpec, NODE_ERRORS | {409}: ErrorBody},
    summary="Claim an assigned run: what to run, once",
)
def claim(request: NodeRequest, body: AttemptRef) -> Any:
    try:
        return services.claim(request.auth, body.run_id, body.attempt)
    except ClaimRefused as error:
        raise HttpError(409, str(error)) from error


@router.get(
    "/traces/{sha256}",
    response={NODE_ERRORS | {404}: ErrorBody},
    openapi_extra=DOWNLOAD,
    summary="The trace that the node's run replays",
)
def download_trace(request: NodeRequest, sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]) -> HttpResponseBase:
    """Only of a run that this node has under way."""
    under_way = Attempt.objects.filter(node=request.auth, state=AttemptState.RUNNING)
    if not under_way.filter(run__spec__trace__sha256=sha256).exists():
        raise HttpError(404, "no run of this node replays such a trace")
    return file_of(sha256, f"{sha256}.jsonl")
