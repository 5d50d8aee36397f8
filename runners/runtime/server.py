"""An OpenAI-compatible server over the engine: `python -m runners.runtime.server --model NAME_OR_PATH --port N`.

This module is the life of the process: options, start, the line that says it is ready, drain, end. It listens
from the start, so that /health can say how far loading is. It ends with its engine (status 1), on SIGTERM or
SIGINT after a drain (status 0; a second signal cuts the drain short), and when the process that started it has gone,
unless `--detached`. In a drain new requests are refused, and those in flight have `--drain-s` to finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

from runners import models
from runners.runtime.model_file import ModelFileError
from runners.runtime.model_source import ModelSource
from runners.runtime.serving.api import build_app
from runners.runtime.serving.chat_format import ChatFormat
from runners.runtime.serving.engine_client import STOP_GRACE_S, EngineClient
from runners.runtime.serving.errors import unavailable
from runners.runtime.serving.loaded import Loaded
from runners.runtime.serving.metrics import ServerMetrics
from runners.runtime.serving.options import ServerOptions, parse_options
from runners.runtime.serving.service import ENGINE_LOADS, Service
from runners.runtime.serving.steps import StepRing
from runners.runtime.tokenizer import Tokenizer

PARENT_POLL_S = 0.5
FAILED_GRACE_S = 1.0
SHUTDOWN_S = 2.0
log = logging.getLogger(__name__)


class StartError(Exception):
    """The server cannot start; the message is for whoever typed the command."""


def model_path(model: str) -> Path | None:
    """The GGUF file or the folder in Hugging Face layout that `model` is the path of; null for a name."""
    path = Path(model)
    return path.resolve() if path.is_file() or (path / "config.json").is_file() else None


def model_name(model: str) -> str:
    """The name served: that of the file or folder, or the registered one. Raises StartError for neither."""
    if (path := model_path(model)) is not None:
        return path.stem if path.is_file() else path.name
    try:
        return models.get(model).name
    except models.ModelError as error:
        raise StartError(f"--model {model!r} is no model's file or folder, and {error}") from error


def fetch_model(model: str) -> Path:
    """The model's file or folder, fetched when absent: then with a line on stderr per tenth of it."""
    if (path := model_path(model)) is not None:
        return path
    tenths_said = -1

    def say_progress(done_bytes: int, total_bytes: int) -> None:
        nonlocal tenths_said
        present = done_bytes == total_bytes and tenths_said < 0
        if not present and (tenths := 10 * done_bytes // max(total_bytes, 1)) > tenths_said:
            tenths_said = tenths
            log.info("fetching %s: %d %%", model, 10 * tenths)

    try:
        return models.fetch(model, progress=say_progress)
    except models.ModelError as error:
        raise StartError(str(error)) from error


def end_children() -> None:
    """A fetch under way has a child, and its thread, which this process waits for, waits for that child."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


async def first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


class Server:
    """One server from bind to end."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.drain_s = options.drain_s
        name = options.model if options.shape else model_name(options.model)
        metrics, steps = ServerMetrics(name), StepRing()
        engine = EngineClient(metrics, steps, options.max_in_flight)
        self.service = Service(
            name,
            engine,
            metrics,
            steps,
            drain_s=options.drain_s,
            keep_alive_s=options.keep_alive_s,
            created_s=int(time.time()),
        )
        self.runner = web.AppRunner(
            build_app(self.service), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S
        )
        self.stop_asked = asyncio.Event()
        self.end_asked = asyncio.Event()

    async def run(self) -> int:
        """Gives the exit status. Raises StartError."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask_to_stop)
        parent = asyncio.create_task(self.watch_parent(os.getppid()))
        try:
            await self.listen()
            return await self.load_and_serve()
        finally:
            parent.cancel()
            await self.service.engine.stop(0.0 if self.end_asked.is_set() else STOP_GRACE_S)
            await self.runner.cleanup()
            end_children()

    def ask_to_stop(self) -> None:
        """The first signal asks for a drain, a second for an end at once."""
        if self.stop_asked.is_set():
            self.end_asked.set()
        self.stop_asked.set()

    async def listen(self) -> None:
        await self.runner.setup()
        try:
            await web.TCPSite(self.runner, self.options.host, self.options.port).start()
        except OSError as error:
            raise StartError(f"cannot listen on {self.options.host}:{self.options.port}: {error}") from error

    async def load_and_serve(self) -> int:
        stop = asyncio.create_task(self.stop_asked.wait())
        load = asyncio.create_task(self.load())
        ended = self.service.engine.ended
        await first_of(stop, load, ended)
        if load.done():
            load.result()
            self.say_ready()
            await first_of(stop, ended)
        load.cancel()
        if ended.done():
            return await self.end_with_engine()
        await self.drain()
        return 0

    async def load(self) -> None:
        service = self.service
        service.phase = "fetching the model"
        source = await self.find_model()
        service.phase = ENGINE_LOADS
        config = self.options.engine_config(source)
        service.engine.start(config)
        try:
            tokenizer, form = await asyncio.to_thread(self.load_tokenizer, source)
        except ModelFileError as error:
            raise StartError(str(error)) from error
        facts = await service.engine.ready
        service.loaded = Loaded(tokenizer, facts, form)
        service.metrics.loaded(facts, config)
        service.phase = "ready"

    async def find_model(self) -> ModelSource:
        if self.options.shape is not None:
            return self.options.shape
        return await asyncio.to_thread(fetch_model, self.options.model)

    def load_tokenizer(self, source: ModelSource) -> tuple[Tokenizer, ChatFormat]:
        """Raises ModelFileError."""
        tokenizer = Tokenizer.from_source(source)
        return tokenizer, ChatFormat.of(tokenizer, self.options.tool_call_parser, self.options.reasoning_parser)

    def say_ready(self) -> None:
        host, port = self.runner.addresses[0][:2]
        facts = self.service.loaded.facts.facts if self.service.loaded else {}
        line = {"event": "ready", "host": host, "port": port, "model": self.service.model, "facts": facts}
        print(json.dumps(line), flush=True)

    async def end_with_engine(self) -> int:
        """The engine died: requests in flight were told; stay a moment so that /health can say it too."""
        reason = self.service.engine.ended.result()
        self.service.phase = f"failed: {reason}"
        log.error("the engine has ended: %s", reason)
        await asyncio.sleep(FAILED_GRACE_S)
        return 1

    async def drain(self) -> None:
        service = self.service
        service.draining, service.phase = True, "draining"
        log.info("ending: %d requests are in flight", service.engine.in_flight)
        idle, end = asyncio.create_task(service.engine.idle()), asyncio.create_task(self.end_asked.wait())
        await asyncio.wait((idle, end), timeout=self.drain_s, return_when=asyncio.FIRST_COMPLETED)
        if not idle.done():
            service.engine.fail_all(unavailable("the server is shutting down", "shutting_down"))
        for task in (idle, end):
            task.cancel()

    async def watch_parent(self, parent_pid: int) -> None:
        """Polls, as it works on every system and whichever thread of the parent started us."""
        while not self.options.detached:
            await asyncio.sleep(PARENT_POLL_S)
            if os.getppid() != parent_pid:
                log.warning("the process that started this server has gone; ending")
                self.drain_s = 0.0
                self.stop_asked.set()
                return


async def serve(options: ServerOptions) -> int:
    return await Server(options).run()


def main(argv: list[str] | None = None) -> int:
    options = parse_options(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return asyncio.run(serve(options))
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
