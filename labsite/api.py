"""The REST API at /api/v1: who may call it, its routers, its errors and its published schema."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from experiments.api import (
    account,
    audit,
    catalog,
    check,
    chips,
    compare,
    experiments,
    exports,
    imports,
    ladder,
    models,
    node,
    replay,
    runs,
    shapes,
    traces,
    webhooks,
)
from experiments.api.auth import PersonAuth
from hardware.api import router as join_router
from labsite.api_errors import handle_errors
from runners.models import ModelEntry
from runners.spec import ExperimentSpec

DESCRIPTION = """Experiments on how to run a language model: submit a document, follow its runs, compare its trials.

Send `Authorization: Bearer <token>`; the pages' own scripts use the session cookie with `X-CSRFToken`.
Every error has one shape: `{"detail", "errors": [{"field", "message", "allowed"}]}`.
Times are seconds, and every other unit is in the name."""


class LabAPI(NinjaAPI):
    """Adds what is read from the raw body, an experiment document or a model's entry, to the published schemas."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        published = super().get_openapi_schema(**options)
        schemas = published["components"]["schemas"]
        for name, model in (("ExperimentSpec", ExperimentSpec), ("ModelEntry", ModelEntry)):
            document = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(document.pop("$defs", {}))
            schemas[name] = document
        return published


api = LabAPI(
    title="Inference lab",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    auth=PersonAuth(),
)
handle_errors(api)
api.add_router("", experiments.router)
api.add_router("", runs.router)
api.add_router("", replay.router)
api.add_router("", compare.router)
api.add_router("", check.router)
api.add_router("", ladder.router)
api.add_router("", exports.router)
api.add_router("", imports.router)
api.add_router("", webhooks.router)
api.add_router("", catalog.router)
api.add_router("", chips.router)
api.add_router("", models.router)
api.add_router("", shapes.router)
api.add_router("", traces.router)
api.add_router("", account.router)
api.add_router("", audit.router)
api.add_router("/node", join_router)
api.add_router("/node", node.router)
