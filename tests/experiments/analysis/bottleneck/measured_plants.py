"""Runs on a real server by the real client, each with one thing planted that must hold it up.

The model is tiny and of random weights, so that what is planted is far larger than what the machine does otherwise.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.analysis.bottleneck import Verdict, gather, judge
from runners import shapes
from runners.events import AnyEvent, Report, RequestRecord, Step
from runners.execution.child import Child
from runners.execution.engines import Served
from runners.execution.journal import Journal
from runners.execution.measured import Load
from runners.execution.server import ReadyServer, make_server, wait_until_ready
from runners.spec import RunSpec, ShapedModel
from runners.spool import SpoolWriter

SHAPE = {"layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab_size": 256}
REPOSITORY = Path(__file__).parents[4]
SLOW_SCHEDULER = """
import sys
import time

if "runners.runtime.serving.engine_process" in sys.orig_argv:
    from runners.runtime.scheduler import Scheduler

    schedule = Scheduler.schedule

    def late(self):
        time.sleep(0.03)
        return schedule(self)

    Scheduler.schedule = late
"""
STOPPED_S, RUNNING_S = 0.12, 0.03


class KeptJournal(Journal):
    def __init__(self, folder: Path) -> None:
        super().__init__(SpoolWriter(folder / "1-1.jsonl"))
        self.events: list[AnyEvent] = []

    def add(self, *events: AnyEvent) -> None:
        self.add_all(events)

    def add_all(self, events: Iterable[AnyEvent]) -> None:
        told = list(events)
        self.events += told
        super().add_all(told)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def tiny_spec(seats: int = 8) -> RunSpec:
    model = shapes.resolve(ShapedModel.model_validate({"shape": SHAPE})).ref()
    return RunSpec.model_validate(
        {
            "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 7, "settings": {}, "model": model,
            "chip_id": "any", "engine": {"threads": 1, "max_num_seqs": seats}, "placement": {}, "slo": {}, "cost": {},
            "workload": {
                "kind": "synthetic",
                "input_len": {"dist": "fixed", "tokens": 16},
                "output_len": {"dist": "fixed", "tokens": 8},
                "arrival": {"kind": "closed", "max_concurrency": 8},
                "num_requests": 40,
                "warmup": {"num_requests": 4},
            },
            "time_limit_s": 120, "code_revision": "test",
        }
    )  # fmt: skip


@asynccontextmanager
async def serving(spec: RunSpec, folder: Path) -> AsyncIterator[ReadyServer]:
    async with make_server(spec.engine, spec.model, KeptJournal(folder)) as server:
        yield await wait_until_ready(server)


async def judged(spec: RunSpec, ready: ReadyServer, folder: Path, *, throttled: bool = False) -> Verdict:
    """The verdict on a load against the server."""
    journal = KeptJournal(folder)
    async with Child("client", "runners.load.client", [], journal, stdin=True) as client:
        throttle = asyncio.create_task(_stop_again_and_again(client)) if throttled else None
        try:
            report: Report = await Load(spec, Served(ready, gives_steps=True), spec.model, client, journal).run({})
        finally:
            if throttle is not None:
                throttle.cancel()
                await asyncio.wait({throttle})
    return judge(gather(journal.of(RequestRecord), journal.of(Step), report, spec))


async def _stop_again_and_again(client: Child) -> None:
    """The client has the machine for a fifth of the time."""
    try:
        while client.process.returncode is None:
            client.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(STOPPED_S)
            client.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(RUNNING_S)
    finally:
        if client.process.returncode is None:
            client.process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def far_away(ready: ReadyServer, delay_s: float) -> AsyncIterator[ReadyServer]:
    """The server through a line that takes `delay_s` each way."""
    host, port = ready.url.removeprefix("http://").split(":")
    passing: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(65_536):
            loop.call_later(delay_s, writer.write, data)
        loop.call_later(delay_s, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(host, int(port))
        passing.update({asyncio.create_task(carry(reader, to_writer)), asyncio.create_task(carry(to_reader, writer))})

    line = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield replace(ready, url=f"http://127.0.0.1:{line.sockets[0].getsockname()[1]}")
    finally:
        line.close()
        for task in passing:
            task.cancel()


@contextmanager
def slow_scheduler(folder: Path) -> Iterator[None]:
    """Every engine that is started in the block thinks for 30 ms before each step."""
    (folder / "sitecustomize.py").write_text(SLOW_SCHEDULER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(REPOSITORY)]))
        yield
