"""Answers of /v1/embeddings."""

from __future__ import annotations

import base64
import struct
from typing import Any

from runners.runtime.serving.jobs import Job
from runners.runtime.serving.protocol.embeddings import EmbeddingBody


def embedding_answer(body: EmbeddingBody, model: str, job: Job) -> dict[str, Any]:
    """One unit vector per input, in order."""
    prompt_tokens = sum(len(prompt.ids) for prompt in job.prompts)
    return {
        "object": "list",
        "model": model,
        "data": [
            {"object": "embedding", "index": index, "embedding": _encoded(stream.embedding or (), body)}
            for index, stream in enumerate(job.streams)
        ],
        "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
    }


def _encoded(vector: tuple[float, ...], body: EmbeddingBody) -> list[float] | str:
    if body.encoding_format == "float":
        return list(vector)
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
