"""`python -m runners.load.client`: the load generator, in a process of its own.

One JSON line on stdin says what to do (ClientConfig); JSON lines on stdout say what happened (`clock`, `phase`,
`tick`, `request`, and `done` as the last). SIGTERM, SIGINT or the end of stdin cancel: requests in flight are
recorded as cancelled, `done` still comes, the status is 0. A config that can't be used gives a line on stderr and
status 2. It starts no server and computes no result.
"""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import aiohttp
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError, model_validator

from runners.engines.listed import DialectName
from runners.load.dialects import DIALECTS
from runners.load.drive import LoadResult, drive
from runners.load.http import Target
from runners.load.plan import make_plan
from runners.load.planned import Ids, LoadPlan
from runners.load.prompts import PromptSource, SyntheticPrompts, TextPrompts
from runners.load.task_plan import ChatQuestions, TaskPlan
from runners.load.text import shipped_text
from runners.load.trace_plan import TraceSource, replay_facts
from runners.runtime.tokenizer import Tokenizer
from runners.spec import WorkloadSpec

LINE = TypeAdapter(dict[str, Any])


class ClientConfig(BaseModel):
    """`model_path` is the file or folder whose tokenizer makes the prompts; a model of `vocab_size` ids that has no
    words has none. `model` is the name the server knows, `dialect` what its requests may hold; prompts go as ids or,
    where the server takes none, as the text that they are. A workload of kind trace comes with where its rows are."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    url: str = Field(pattern=r"^https?://")
    model: str
    workload: WorkloadSpec
    seed: int = Field(ge=0)
    model_path: Path | None = None
    vocab_size: int | None = Field(default=None, ge=1)
    request_timeout_s: float = Field(gt=0)
    dialect: DialectName = "lab"
    prompts_as: Literal["ids", "text"] = "ids"
    api_key: SecretStr | None = None
    trace: TraceSource | None = None

    @model_validator(mode="after")
    def has_tokens(self) -> Self:
        if (self.model_path is None) == (self.vocab_size is None):
            raise ValueError("model_path, vocab_size: exactly one of them is needed")
        if self.vocab_size is not None and self.prompts_as == "text":
            raise ValueError("prompts_as: text needs the words of a model_path")
        if self.vocab_size is not None and self.workload.kind == "text":
            raise ValueError("workload.kind: text needs words; allowed with vocab_size: any other kind")
        return self


def to_json(line: dict[str, Any]) -> bytes:
    return LINE.dump_json(line) + b"\n"


class LineWriter:
    """Writes JSON lines from a thread of its own, so that a slow reader never holds up the load."""

    def __init__(self, stream: BinaryIO, on_broken: Callable[[], object]) -> None:
        self._stream = stream
        self._on_broken = on_broken
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="lines", daemon=True)
        self._thread.start()

    def put(self, line: dict[str, Any]) -> None:
        self._lines.put(line)

    def close(self) -> None:
        """Returns when all lines are written, or can't be."""
        self._lines.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(to_json(line))
                if self._lines.empty():
                    self._stream.flush()
            except (BrokenPipeError, ValueError):
                self._on_broken()
                return


def make_prompts(config: ClientConfig) -> PromptSource:
    if config.model_path is None:
        return SyntheticPrompts(config.seed, np.arange(config.vocab_size or 0))
    tokenizer = Tokenizer.from_path(config.model_path)
    # Control tokens have no bytes; a prompt of random ids must not hold one.
    allowed = [token_id for token_id in range(tokenizer.vocab_size) if tokenizer.token_bytes(token_id)]
    if config.workload.kind == "synthetic":
        return SyntheticPrompts(config.seed, allowed)
    return TextPrompts(config.seed, tokenizer.encode(shipped_text(), add_special=False), allowed)


def plan_of(config: ClientConfig) -> LoadPlan:
    """Raises ValueError, OSError where what the workload needs is not there."""
    prompts = make_prompts(config)
    if config.workload.kind != "tasks":
        return make_plan(config.workload, config.seed, prompts, config.trace)
    assert config.model_path is not None  # as the config was checked
    questions = ChatQuestions(Tokenizer.from_path(config.model_path), config.workload.tasks, config.seed)
    return TaskPlan(config.workload, config.seed, prompts, questions)


def to_text_of(config: ClientConfig) -> Callable[[Ids], str] | None:
    """How prompts become text, where they are sent as such."""
    if config.prompts_as == "ids" or config.model_path is None:
        return None
    tokenizer = Tokenizer.from_path(config.model_path)
    return lambda ids: tokenizer.decode(list(ids))


async def run(config: ClientConfig, plan: LoadPlan, put: Callable[[dict[str, Any]], None]) -> LoadResult:
    to_text = to_text_of(config)
    zero_s = time.monotonic()
    put({"type": "clock", "zero_monotonic_s": zero_s})
    # No limit on connections: a limit would queue requests here, unseen by the server.
    dialect = DIALECTS[config.dialect]
    connector = aiohttp.TCPConnector(limit=0, force_close=not dialect.keep_alive)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
    ) as http:
        target = Target(
            http,
            config.url.rstrip("/"),
            config.model,
            config.request_timeout_s,
            time.monotonic,
            zero_s,
            dialect,
            to_text,
            config.api_key.get_secret_value() if config.api_key else None,
        )
        result = await drive(target, plan, put, stop_when_saturated=config.workload.stop_when_saturated)
        result.client.update(replay_facts(plan))
        return result


async def run_until_cancelled(config: ClientConfig, plan: LoadPlan) -> None:
    """Runs the load; a signal, the end of stdin or of stdout's reader cancels it."""
    loop = asyncio.get_running_loop()
    cancelled = asyncio.Event()
    ask = cancelled.set
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    threading.Thread(target=_wait_for_eof, args=(loop, ask), name="stdin", daemon=True).start()
    writer = LineWriter(sys.stdout.buffer, lambda: _call_in(loop, ask))
    load = asyncio.create_task(run(config, plan, writer.put))
    wait = asyncio.create_task(cancelled.wait())
    try:
        await asyncio.wait({load, wait}, return_when=asyncio.FIRST_COMPLETED)
        if not load.done():
            load.cancel()
        result = await load
        writer.put({"type": "done", **result.as_json()})
    finally:
        wait.cancel()
        await asyncio.to_thread(writer.close)


def _wait_for_eof(loop: asyncio.AbstractEventLoop, ask: Callable[[], object]) -> None:
    # Not through sys.stdin: a thread that waits inside its lock would break the interpreter's exit.
    while os.read(0, 4096):
        continue
    _call_in(loop, ask)


def _call_in(loop: asyncio.AbstractEventLoop, ask: Callable[[], object]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(ask)


def main() -> int:
    try:
        config = ClientConfig.model_validate_json(sys.stdin.buffer.readline())
        plan = plan_of(config)
    except (ValidationError, ValueError, OSError) as error:
        print(f"error: the load generator can't start: {error}", file=sys.stderr)
        return 2
    # What exists by now lives to the end: keep collections short while requests are timed.
    gc.freeze()
    asyncio.run(run_until_cancelled(config, plan))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
