"""POST /v1/embeddings, /tokenize and /detokenize: what is asked of a text without an answer being drawn."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import web

from runners.runtime.serving.answers.embedding import embedding_answer
from runners.runtime.serving.errors import bad_field
from runners.runtime.serving.http_answers import SERVICE, json_answer, request_id_of
from runners.runtime.serving.loaded import Loaded
from runners.runtime.serving.protocol.body import parse
from runners.runtime.serving.protocol.embeddings import EmbeddingBody
from runners.runtime.serving.protocol.tokens import DetokenizeBody, TokenizeBody, TokenizeChatBody, asks_for_chat
from runners.runtime.serving.sequence_stream import wait_finished
from runners.runtime.tokenizer import TextError


async def embeddings(request: web.Request) -> web.StreamResponse:
    """The hidden state of each text's last token, normed. A model has vectors of one length: `dimensions` may name it,
    and nothing else."""
    body = parse(EmbeddingBody, await request.read())
    service = request.app[SERVICE]
    received_s, request_id = time.monotonic(), request_id_of(request)
    service.check_model(body.model)
    job = await service.open_embedding(body, request_id, received_s)
    try:
        await wait_finished(job.streams, job.wake)
        native = len(job.streams[0].embedding or ())
        if body.dimensions not in (None, native):
            raise bad_field("dimensions", f"{body.dimensions} is not allowed; allowed: {native}", "unsupported_value")
        return json_answer(embedding_answer(body, service.model, job), headers={"X-Request-Id": request_id})
    finally:
        service.close(job)


async def tokenize(request: web.Request) -> web.StreamResponse:
    raw = await request.read()
    body = parse(TokenizeChatBody, raw) if asks_for_chat(raw) else parse(TokenizeBody, raw)
    service = request.app[SERVICE]
    loaded = service.check_ready()
    service.check_model(body.model)
    return json_answer(await asyncio.to_thread(tokenized, loaded, body))


def tokenized(loaded: Loaded, body: TokenizeBody | TokenizeChatBody) -> dict[str, Any]:
    """Raises ApiError 400. A text that can't fit the model's context is refused, as it is for an answer."""
    encoder = loaded.prompts
    field, text = (
        ("messages", encoder.chat_text(body)) if isinstance(body, TokenizeChatBody) else ("prompt", body.prompt)
    )
    ids = encoder.encode(text, field, add_special=body.add_special_tokens)
    texts = [loaded.tokenizer.token_text(token_id) for token_id in ids] if body.return_token_strs else None
    return {"count": len(ids), "max_model_len": loaded.facts.context_len, "tokens": ids, "token_strs": texts}


async def detokenize(request: web.Request) -> web.StreamResponse:
    """Control tokens stand by their names, so that what /tokenize took apart comes back as it was."""
    body = parse(DetokenizeBody, await request.read())
    service = request.app[SERVICE]
    tokenizer = service.check_ready().tokenizer
    service.check_model(body.model)

    try:
        text = await asyncio.to_thread(tokenizer.decode, body.tokens, skip_special=False)
    except TextError as error:
        raise bad_field("tokens", str(error), "invalid_value") from error
    return json_answer({"prompt": text})
