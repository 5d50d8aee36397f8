"""The server's end of the engine process: starts it, sends commands, hands what comes back to its request.

Two threads move the messages (the event loop never waits for the engine, nor the engine for the event loop
beyond one write); all state is touched in the event loop alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection

from runners.events import KVBlocks
from runners.runtime.engine import EngineStats, RequestTiming
from runners.runtime.sequence import SamplingParams
from runners.runtime.serving.errors import ApiError, unavailable
from runners.runtime.serving.messages import (
    Abort,
    Aborted,
    Accepted,
    Add,
    Command,
    EngineConfig,
    Fatal,
    Holders,
    Loading,
    Progress,
    Ready,
    Rejected,
    Report,
    Stop,
)
from runners.runtime.serving.metrics import ServerMetrics
from runners.runtime.serving.sequence_stream import SequenceStream
from runners.runtime.serving.steps import StepRing
from runners.runtime.threads import thread_environment

STOP_GRACE_S = 5.0
log = logging.getLogger(__name__)


class EngineClient:
    """One engine process. `ready` resolves with its facts, `ended` with the reason it ended (empty: as told).

    The engine knows each sequence by a key of ours that is never used again, so that a late answer about one never
    reaches another to which its client gave the same id.
    """

    def __init__(self, metrics: ServerMetrics, steps: StepRing, max_in_flight: int) -> None:
        self.phase = "starting the engine"
        self.stats = EngineStats(0, 0, 0, 0, 0, 0)
        self.kv_blocks: KVBlocks | None = None
        self.max_in_flight = max_in_flight
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Ready] = self._loop.create_future()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self._metrics = metrics
        self._steps = steps
        self._streams: dict[str, SequenceStream] = {}
        self._ids: set[str] = set()
        self._num_submitted = 0
        self._commands: queue.SimpleQueue[Command | EngineConfig | None] = queue.SimpleQueue()
        self._stopping = False
        self._failure = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, config: EngineConfig) -> None:
        """Spawn the process (from the main thread: Linux ties its life to the thread that spawned it)."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "runners.runtime.serving.engine_process",
                    str(theirs.fileno()),
                    str(os.getpid()),
                ],
                pass_fds=[theirs.fileno()],
                env=thread_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
            )
        connection: Connection[Command | EngineConfig, Report] = Connection(ours.detach())
        self._commands.put(config)
        for move in (self._send_commands, self._receive_reports):
            threading.Thread(target=move, args=(connection,), name=move.__name__, daemon=True).start()

    @property
    def in_flight(self) -> int:
        return len(self._streams)

    @property
    def alive(self) -> bool:
        return self.ready.done() and not self.ended.done() and not self._stopping

    def submit(self, stream: SequenceStream, params: SamplingParams, priority: int) -> None:
        """Hand a sequence to the engine. Raises ApiError: 503 when down or full, 409 for an id in flight."""
        if not self.alive:
            raise unavailable("the engine is not running", "engine_unavailable", retry_after_s=1)
        if stream.request_id in self._ids:
            raise ApiError(409, f"a request with id {stream.request_id!r} is in flight", param="X-Request-Id")
        if len(self._streams) >= self.max_in_flight:
            raise unavailable(
                f"{len(self._streams)} requests are in flight and the waiting queue is full",
                "engine_overloaded",
                retry_after_s=1,
            )
        self._num_submitted += 1
        stream.key = f"{self._num_submitted}:{stream.request_id}"
        self._streams[stream.key] = stream
        self._ids.add(stream.request_id)
        self._commands.put(Add(stream.key, stream.prompt_ids, params, priority))

    def release(self, stream: SequenceStream) -> None:
        """The response is over, for whatever reason: an unfinished sequence is aborted and its blocks
        freed."""
        if stream.key in self._streams and not stream.closed:
            stream.fail(unavailable("the request was aborted", "aborted"))
            self._metrics.finished("abort", time.monotonic() - stream.received_s)
            self._commands.put(Abort(stream.key))

    async def idle(self) -> None:
        """Until no sequence is in flight."""
        while self._streams and not self.ended.done():
            await asyncio.sleep(0.02)

    def fail_all(self, error: ApiError) -> None:
        for stream in self._streams.values():
            stream.fail(error)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End the process: at the end of its step, or by force after a grace. While it loads, at once: it does not
        listen then, and holds nothing that matters."""
        self._stopping = True
        self._commands.put(Stop())
        self._commands.put(None)
        if self._process is None:
            return
        if not self.ready.done():
            self._process.kill()
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), grace_s)
        except TimeoutError:
            log.warning("the engine process did not end within %.0f s and is killed", grace_s)
            self._process.kill()
            await self.ended

    def _send_commands(self, connection: Connection[Command | EngineConfig, Report]) -> None:
        while (command := self._commands.get()) is not None:
            try:
                connection.send(command)
            except OSError:  # the engine ended; _receive_reports tells everyone
                return

    def _receive_reports(self, connection: Connection[Command | EngineConfig, Report]) -> None:
        assert self._process is not None
        while True:
            try:
                report = connection.recv()
            except (EOFError, OSError):
                break
            self._in_loop(self._handle, report)
        status = self._process.wait()
        self._in_loop(self._handle_end, status)

    def _in_loop(self, call: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:  # the event loop has closed: no one is left to tell
            log.debug("a message of the engine came after the end of the server")

    def _handle(self, report: Report) -> None:
        match report:
            case Progress():
                self._on_progress(report)
            case Holders(blocks):
                self.kv_blocks = self._by_request_id(blocks)
            case Accepted(key):
                if stream := self._streams.get(key):
                    self._metrics.accepted(len(stream.prompt_ids))
                    stream.accept()
            case Rejected():
                self._on_rejected(report)
            case Aborted():
                self._on_aborted(report)
            case Loading(phase):
                self.phase = phase
            case Ready():
                self.phase = "ready"
                self._take_stats(report.stats)
                self.ready.set_result(report)
            case Fatal(message):
                self._failure = message

    def _by_request_id(self, blocks: KVBlocks) -> KVBlocks:
        """What the engine knows by key, by the ids that clients gave, which need not differ."""
        named: Counter[str] = Counter()
        gone = 0
        for key, held in blocks.owners.items():
            if stream := self._streams.get(key):
                named[stream.request_id] += held
            else:
                gone += held
        return blocks.model_copy(update={"owners": dict(named), "others": blocks.others + gone})

    def _on_rejected(self, report: Rejected) -> None:
        if stream := self._forget(report.key):
            code = "context_length_exceeded" if report.field in {"prompt", "max_tokens"} else "invalid_value"
            param = stream.prompt_field if report.field == "prompt" else report.field
            stream.fail(ApiError(400, report.message, param=param, code=code))

    def _on_progress(self, report: Progress) -> None:
        self._steps.append(report.step)
        self._metrics.step(report.step)
        self._take_stats(report.stats)
        for key, logprobs in report.prompt_logprobs:
            self._streams[key].prompt_logprobs = logprobs
        now_s = time.monotonic()
        for key, token_id, reason, timing, token_logprobs in report.tokens:
            stream = self._streams[key]
            self._metrics.token(stream.received_s, stream.last_token_s, now_s)
            stream.last_token_s = now_s
            was_stopping = stream.stopping
            stream.push(token_id, token_logprobs)
            if reason is not None:
                self._close(stream, reason, timing)
            elif stream.stopping and not was_stopping:
                self._commands.put(Abort(key))
        for key, embedding, timing in report.embeddings:
            self._streams[key].embedding = embedding
            self._close(self._streams[key], "stop", timing)
        for key, field, message in report.failures:
            self._on_failure(key, field, message)

    def _on_failure(self, key: str, field: str, message: str) -> None:
        stream = self._streams[key]
        if stream.stopping:  # its answer was complete before
            self._close(stream, "stop", None)
            return
        self._forget(key)
        if not stream.closed:
            self._metrics.finished("error", time.monotonic() - stream.received_s)
            stream.fail(ApiError(400, message, param=field, code="invalid_value"))

    def _on_aborted(self, report: Aborted) -> None:
        self._take_stats(report.stats)
        if stream := self._streams.get(report.key):
            self._close(stream, "stop", report.timing)

    def _close(self, stream: SequenceStream, reason: str, timing: RequestTiming | None) -> None:
        self._forget(stream.key)
        if timing is not None:
            self._metrics.timed(len(stream.prompt_ids), stream.num_output_tokens, timing)
        if not stream.closed:
            stream.finish(reason, timing)
            self._metrics.finished(stream.finish_reason or reason, time.monotonic() - stream.received_s)

    def _forget(self, key: str) -> SequenceStream | None:
        stream = self._streams.pop(key, None)
        if stream is not None:
            self._ids.remove(stream.request_id)
        return stream

    def _take_stats(self, stats: EngineStats) -> None:
        self.stats = stats
        self._metrics.stats(stats)

    def _handle_end(self, status: int) -> None:
        reason = "" if self._stopping else self._failure or f"the engine process ended with status {status}"
        self.fail_all(unavailable(reason or "the server is shutting down", "engine_unavailable"))
        self._streams.clear()
        self._ids.clear()
        if reason and not self.ready.done():
            self.phase = "failed"
        self.ended.set_result(reason)
