"""What the HTTP handlers serve from: the model's name, its tokenizer, its engine, and whether all of that is up."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from runners.runtime.serving.engine_client import EngineClient
from runners.runtime.serving.errors import ApiError, bad_field, unavailable
from runners.runtime.serving.jobs import Job, embedding_job, embedding_stream, generation_job, generation_stream
from runners.runtime.serving.loaded import Loaded
from runners.runtime.serving.metrics import ServerMetrics
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.protocol.completions import CompletionBody
from runners.runtime.serving.protocol.embeddings import EmbeddingBody
from runners.runtime.serving.sequence_stream import SequenceStream
from runners.runtime.serving.steps import StepRing

ENGINE_LOADS = "the engine loads"


@dataclass
class Service:
    """Loading → ready → draining, or failed. `phase` says it in words for /health. `keep_alive_s` is how long a stream
    may be silent; 0 for any time."""

    model: str
    engine: EngineClient
    metrics: ServerMetrics
    steps: StepRing
    phase: str = "starting"
    draining: bool = False
    drain_s: float = 0.0
    keep_alive_s: float = 0.0
    loaded: Loaded | None = None
    created_s: int = 0

    @property
    def ready(self) -> bool:
        return self.loaded is not None and self.engine.alive and not self.draining

    @property
    def current_phase(self) -> str:
        """The phase for people: while the engine loads, in its own words."""
        return self.engine.phase if self.phase == ENGINE_LOADS else self.phase

    def check_ready(self) -> Loaded:
        if self.draining:
            retry_after_s = max(1, round(self.drain_s))
            raise unavailable("the server is shutting down", "shutting_down", retry_after_s=retry_after_s)
        if self.engine.ended.done():
            raise unavailable(f"the engine has ended: {self.engine.ended.result()}", "engine_unavailable")
        if self.loaded is None or not self.engine.alive:
            raise unavailable(f"the model is not ready yet: {self.current_phase}", "loading", retry_after_s=1)
        return self.loaded

    def check_model(self, name: str | None) -> None:
        if name is not None and name != self.model:
            raise ApiError(
                404,
                f"the model {name[:80]!r} is not served here; served: {self.model!r}",
                param="model",
                code="model_not_found",
            )

    async def open_generation(self, body: CompletionBody | ChatBody, request_id: str, received_s: float) -> Job:
        """Tokenise in a thread and give every sequence to the engine. Raises ApiError, having left nothing there."""
        loaded = self.check_ready()
        job = await asyncio.to_thread(generation_job, loaded, body, request_id, received_s)
        self._check_room(job, "n" if body.n > 1 else "prompt")
        self.metrics.asked(body.n, [params.max_tokens for params in job.params])
        return self._submit(job, body.priority, partial(generation_stream, loaded, body, job))

    async def open_embedding(self, body: EmbeddingBody, request_id: str, received_s: float) -> Job:
        """As `open_generation`, for the hidden states of texts."""
        loaded = self.check_ready()
        job = await asyncio.to_thread(embedding_job, loaded, body, request_id, received_s)
        self._check_room(job, "input")
        return self._submit(job, body.priority, partial(embedding_stream, loaded, job))

    def _submit(self, job: Job, priority: int, stream_of: Callable[[int], SequenceStream]) -> Job:
        try:
            for index, params in enumerate(job.params):
                stream = stream_of(index)
                self.engine.submit(stream, params, priority)
                job.streams.append(stream)
        except BaseException:
            self.close(job)
            raise
        return job

    def close(self, job: Job) -> None:
        """Whatever has not finished is aborted: its blocks are free before the engine's next step."""
        for stream in job.streams:
            self.engine.release(stream)

    def _check_room(self, job: Job, param: str) -> None:
        """A request for more sequences than ever fit would otherwise be told to come back. Raises ApiError 400."""
        asked, most = len(job.params), self.engine.max_in_flight
        if asked > most:
            raise bad_field(param, f"asks for {asked} sequences; this server takes {most}", "invalid_value")


def new_request_id() -> str:
    return secrets.token_hex(12)
