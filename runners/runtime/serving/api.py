"""All routes of the server, and those that say what it is and how it does: models, health, metrics, steps, facts.

Error bodies are OpenAI's everywhere, unknown paths and oversized bodies included.
"""

from __future__ import annotations

import time
from importlib import metadata
from typing import Any

from aiohttp import web

from runners.runtime.serving.generation_api import chat_completions, completions
from runners.runtime.serving.http_answers import MAX_BODY_BYTES, SERVICE, int_query, json_answer, openai_errors
from runners.runtime.serving.service import Service
from runners.runtime.serving.steps import step_fields
from runners.runtime.serving.text_api import detokenize, embeddings, tokenize

MAX_STEPS_PER_PAGE = 5000
DISTRIBUTION = "inference-lab"


async def list_models(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    card: dict[str, Any] = {
        "id": service.model,
        "object": "model",
        "created": service.created_s,
        "owned_by": "lab",
    }
    if service.loaded is not None:
        card["max_model_len"] = service.loaded.facts.context_len
    return json_answer({"object": "list", "data": [card]})


async def show_model(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    service.check_model(request.match_info["name"])
    return json_answer({"id": service.model, "object": "model", "created": service.created_s, "owned_by": "lab"})


async def version(request: web.Request) -> web.Response:
    return json_answer({"version": metadata.version(DISTRIBUTION)})


async def health(request: web.Request) -> web.Response:
    """200 once requests are taken; else 503 with the phase."""
    service = request.app[SERVICE]
    body = {
        "status": "ok" if service.ready else "unavailable",
        "phase": service.current_phase,
        "model": service.model,
    }
    return json_answer(body, 200 if service.ready else 503)


async def metrics(request: web.Request) -> web.Response:
    return web.Response(
        body=request.app[SERVICE].metrics.render(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def lab_steps(request: web.Request) -> web.Response:
    """Steps with an index above `after` (0: from the first), oldest first, what the engine holds now, and whose the KV
    blocks were a moment ago (null before the first step)."""
    service = request.app[SERVICE]
    after = int_query(request, "after", 0, 0, 2**63)
    limit = int_query(request, "limit", 1000, 1, MAX_STEPS_PER_PAGE)
    page = service.steps.read(after, limit)
    stats = service.engine.stats
    return json_answer(
        {
            "steps": [step_fields(values) for values in page.steps],
            "next": page.next,
            "dropped": page.dropped,
            "now_s": time.monotonic(),
            "now": {name: getattr(stats, name) for name in stats.__slots__},
            "kv_blocks": service.engine.kv_blocks.model_dump() if service.engine.kv_blocks else None,
            "in_flight": service.engine.in_flight,
        }
    )


async def lab_facts(request: web.Request) -> web.Response:
    """Provenance of this server: what the engine says it runs on."""
    ready = request.app[SERVICE].check_ready().facts
    return json_answer({"model": request.app[SERVICE].model, "max_model_len": ready.context_len, **ready.facts})


def build_app(service: Service) -> web.Application:
    app = web.Application(middlewares=[openai_errors], client_max_size=MAX_BODY_BYTES)
    app[SERVICE] = service
    app.add_routes(
        [
            web.post("/v1/completions", completions),
            web.post("/v1/chat/completions", chat_completions),
            web.post("/v1/embeddings", embeddings),
            web.get("/v1/models", list_models),
            web.get("/v1/models/{name:.+}", show_model),
            web.post("/tokenize", tokenize),
            web.post("/detokenize", detokenize),
            web.get("/version", version),
            web.get("/health", health),
            web.get("/metrics", metrics),
            web.get("/lab/steps", lab_steps),
            web.get("/lab/facts", lab_facts),
        ]
    )
    return app
