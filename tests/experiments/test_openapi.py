"""The published document is the truth: what it allows is answered as it says, what it forbids is refused.

Every operation gets generated requests, valid and not, through the whole WSGI application. Half the ids are those of
things that are there. Each request is taken back, so that the next finds the same world.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from access_world import World, build_world
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS

from labsite.api import api
from runners.protocol import HEADER, NODE_PROTOCOL

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]

SCHEMA = schemathesis.openapi.from_dict(api.get_openapi_schema())
SCHEMA.app = get_wsgi_application()
# Not all that is refused can be said in a schema: a cursor that was never given, a document whose parts don't go
# together, a name that is taken. That such a request is refused as the document says is checked like any other.
UNSTATABLE = [CHECKS.get_one("positive_data_acceptance")]
# It answers 200 to a document with faults: to name them is what it is for.
FAULTS_ARE_ANSWERS = "/api/v1/experiments/validate"


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """Without the end of a request ending the test's own transaction, as Django's test client has it too."""
    built = build_world()
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield built
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@SCHEMA.parametrize()
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_answers_as_the_document_says(case: schemathesis.Case, world: World) -> None:
    actor = "node" if case.path.startswith("/api/v1/node/") else "admin"
    headers = {"Authorization": f"Bearer {world.actors[actor].token}", HEADER: str(NODE_PROTOCOL)}
    for name, value in case.path_parameters.items():
        if isinstance(value, int) and value % 2 == 0:
            case.path_parameters[name] = world.values.get(name, value)
    excluded = [*UNSTATABLE]
    # An object in a query goes out as its text, which is as good as any other.
    if case.path == FAULTS_ARE_ANSWERS or any(isinstance(value, dict) for value in case.query.values()):
        excluded.append(CHECKS.get_one("negative_data_rejection"))
    with transaction.atomic():
        case.call_and_validate(headers=headers, excluded_checks=excluded)
        transaction.set_rollback(True)
