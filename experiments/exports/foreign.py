"""A run's requests in the formats of other tools (runners.interchange.writing), read from the database in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.db import connection

from experiments.errors import NoFinalAttempt
from experiments.exports.records import Source, stored_pieces
from experiments.models import RequestRecord, Run
from runners import events
from runners.interchange.writing import aiperf_bytes, vllm_bytes

Tool = Literal["vllm", "aiperf"]
FORMATS: dict[Tool, str] = {"vllm": "json", "aiperf": "jsonl"}
CONTENT_TYPES: dict[Tool, str] = {"vllm": "application/json", "aiperf": "application/x-ndjson"}


def foreign_bytes(run: Run, tool: Tool) -> Iterator[bytes]:
    """The file in pieces. Raises NoFinalAttempt where the run has not ended, or never ran."""
    attempt = run.final_attempt
    if attempt is None:
        raise NoFinalAttempt(run.pk, [])
    source = Source(run.pk, attempt.number, attempt.is_modelled)

    def records() -> Iterator[events.RequestRecord]:
        for piece in stored_pieces(RequestRecord, source):
            for _, data in piece:
                yield events.RequestRecord.model_validate(data)

    if tool == "aiperf":
        begin = run.started_at or run.created_at
        return aiperf_bytes(records, int(begin.timestamp()) * 1_000_000_000, modelled=attempt.is_modelled)
    about = _about(run) | ({"modelled": True} if attempt.is_modelled else {})
    return vllm_bytes(records, about, (run.summary or {}).get("metrics", {}))


def _about(run: Run) -> dict[str, Any]:
    """What vLLM says of its run besides figures."""
    arrival = run.spec["workload"]["arrival"]
    rate = arrival.get("request_rate")
    return {
        "date": (run.started_at or run.created_at).strftime("%Y%m%d-%H%M%S"),
        "backend": "openai",
        "label": f"inference-lab run {run.pk}",
        "model_id": run.spec["model"]["name"],
        "tokenizer_id": run.spec["model"]["name"],
        "request_rate": "inf" if rate is None else rate,
        "burstiness": arrival.get("burstiness", 1.0),
        "max_concurrency": arrival.get("max_concurrency"),
    }


async def stream_bytes(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Piece by piece in a thread of its own; between two no connection is held."""

    def next_piece() -> bytes | None:
        try:
            return next(pieces, None)
        finally:
            if not connection.in_atomic_block:
                connection.close()  # which gives it back to the pool

    while (piece := await sync_to_async(next_piece)()) is not None:
        if piece:
            yield piece
