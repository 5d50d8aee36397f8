"""A measured run: the model's file, the server in one process, the load in another, and their joint record.

The phases follow the load client's word. Whatever ends the run, both children are gone when this returns.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from pydantic_core import to_jsonable_python

from runners.events import Report, RequestRecord
from runners.execution.child import Child, Command
from runners.execution.endpoint import read_metrics
from runners.execution.engines import Served, serve
from runners.execution.errors import RunFailed
from runners.execution.having_model import check_shape, have_model, model_facts
from runners.execution.journal import Journal
from runners.execution.merge import SampleMerger, on_run_clock
from runners.execution.quality import QualityPhase
from runners.execution.server import read_steps
from runners.execution.trace_file import trace_facts, trace_source
from runners.execution.watch import NodeWatch
from runners.load.trace_plan import TraceSource
from runners.power import ON_CPU, ON_GPU, PowerSampler, open_meter
from runners.spec import ModelRef, RunSpec

POLL_S = 0.25
POLL_TIMEOUT_S = 10.0
NOTICE_DEATH_S = 1.0

T = TypeVar("T")


async def execute_measured(
    spec: RunSpec,
    models_dir: Path,
    journal: Journal,
    facts: dict[str, Any],
    traces_dir: Path | None = None,
    engines_file: Path | None = None,
) -> Report:
    """Runs it and gives its Report; adds to `facts` as they become known. Raises RunFailed."""
    trace = trace_source(spec, traces_dir)
    facts.update(trace_facts(spec))
    journal.status("starting", detail=f"model {spec.model.name}")
    model = check_shape(spec.model) if spec.model.random_weights else await have_model(spec.model, models_dir, journal)
    facts["model"] = model_facts(spec.model)
    journal.status("starting", detail="server")
    quality = None if spec.quality is None else QualityPhase(spec, spec.quality, journal)
    async with serve(spec, model, journal, engines_file) as served:
        ready, server = served.ready, served.process
        facts["engine"] = ready.facts
        facts["emulated"] = bool(ready.facts.get("emulated"))
        journal.status("starting", detail="load")
        async with Child("client", "runners.load.client", [], journal, stdin=True) as client:
            load = Load(spec, served, model, client, journal, trace)
            report = await _unless_it_dies(server, load.run(facts))
        if quality is not None:
            await _unless_it_dies(server, quality.ask(ready))
    if quality is None:
        return report
    await quality.score(model, models_dir)
    return report.model_copy(update={"facts": facts | {"quality": quality.facts()}})


async def _unless_it_dies(server: Command | None, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; RunFailed as soon as the server has ended, which is then why, whatever else failed first. The
    end of an engine that is no process of ours shows in its answers alone."""
    if server is None:
        return await work
    task, death = asyncio.create_task(work), asyncio.create_task(server.ended())
    try:
        await asyncio.wait({task, death}, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and (task.exception() is None or not await server.ends_within(NOTICE_DEATH_S)):
            return task.result()
        raise RunFailed(f"in mid-run the {await server.died()}", retry=True)
    finally:
        await _cancel(task)
        await _cancel(death)


class Load:
    """One load against a ready server, from the client's first line to its last."""

    def __init__(
        self,
        spec: RunSpec,
        served: Served,
        model: Path | ModelRef,
        client: Child,
        journal: Journal,
        trace: TraceSource | None = None,
    ) -> None:
        self._spec = spec
        self._served = served
        self._model = model
        self._client = client
        self._journal = journal
        self._trace = trace
        self._merger = SampleMerger()
        self._watch = NodeWatch()
        on_cpu = (spec.chip or {}).get("kind", "cpu") == "cpu"
        meter, self._unmetered = open_meter(ON_CPU if on_cpu else ON_GPU)
        self._power = PowerSampler(meter) if meter is not None else None
        self._ready_s = time.monotonic()
        self._zero_s: float | None = None
        self._after = 0
        self._dropped = 0
        self._done: dict[str, Any] | None = None

    async def run(self, facts: dict[str, Any]) -> Report:
        self._client.write_line(json.dumps(self._config()))
        if self._power is not None:
            self._power.start()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=POLL_TIMEOUT_S)) as http:
            polling = asyncio.create_task(self._poll(http))
            try:
                await self._read_client()
                await _cancel(polling)
                await self._poll_once(http)
            finally:
                await _cancel(polling)
                self._journal.add_all(self._merger.finish())
                if self._power is not None:
                    self._power.stop()
        facts.update(self._watch.stop())
        facts["power"] = self._power_facts()
        facts["steps_dropped"] = self._dropped if self._served.gives_steps else None
        facts["before_window"] = self._before_window()
        return self._report(facts)

    def _config(self) -> dict[str, Any]:
        spec = self._spec
        return {
            **self._served.client_config(),
            "workload": spec.workload.model_dump(mode="json"),
            "seed": spec.seed,
            **self._tokens(),
            "request_timeout_s": spec.time_limit_s,
            "trace": to_jsonable_python(self._trace),
        }

    def _tokens(self) -> dict[str, Any]:
        """Where prompts have their ids from."""
        if isinstance(self._model, Path):
            return {"model_path": str(self._model)}
        return {"vocab_size": self._model.shape["vocab_size"]}

    async def _read_client(self) -> None:
        """Takes the client's lines until its last. Raises RunFailed where that doesn't come."""
        take: dict[str, Callable[[dict[str, Any]], None]] = {
            "clock": self._take_clock,
            "phase": self._take_phase,
            "tick": self._take_tick,
            "request": self._take_request,
            "done": self._take_done,
        }
        while self._done is None:
            line = await self._client.read_line()
            if not line:
                raise RunFailed(f"the load {await self._client.died()}", retry=self._client.was_killed)
            message = json.loads(line)
            take[message.pop("type")](message)

    def _take_clock(self, message: dict[str, Any]) -> None:
        self._zero_s = message["zero_monotonic_s"]

    def _take_phase(self, message: dict[str, Any]) -> None:
        if message["phase"] == "measuring":
            self._watch.start()
        self._journal.status(message["phase"], message["t_s"])

    def _take_tick(self, message: dict[str, Any]) -> None:
        if message["interval_s"] > 0:
            self._merger.add_tick(message)
            self._journal.add_all(self._merger.take())

    def _take_request(self, message: dict[str, Any]) -> None:
        self._journal.add(RequestRecord.model_validate(message["record"]))

    def _take_done(self, message: dict[str, Any]) -> None:
        self._done = message

    async def _poll(self, http: aiohttp.ClientSession) -> None:
        while True:
            await self._poll_once(http)
            await asyncio.sleep(POLL_S)

    async def _poll_once(self, http: aiohttp.ClientSession) -> None:
        """Fetches the steps since the last time. A server that doesn't answer now is asked again; its death is noticed
        elsewhere."""
        if self._zero_s is None:
            return
        if not self._served.gives_steps:
            await self._read_gauges(http)
            return
        try:
            page = await read_steps(http, self._served.ready.url, self._after)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._journal.log("warning", "execute", f"the server did not give its steps: {error!r}")
            return
        steps = [on_run_clock(step, self._zero_s) for step in page.steps]
        self._after = page.next
        self._dropped += page.dropped
        self._merger.add_steps(steps, page.now_s - self._zero_s, page.kv_blocks)
        self._journal.add_all([*steps, *self._merger.take()])

    async def _read_gauges(self, http: aiohttp.ClientSession) -> None:
        """What an engine of another kind says of itself now. Metrics that fail once are asked for again; a sample
        without them has none."""
        asked_s, gauges = time.monotonic(), None
        if self._served.metrics_url is not None:
            try:
                gauges = await read_metrics(http, self._served.metrics_url, self._served.api_key)
            except (aiohttp.ClientError, TimeoutError) as error:
                self._journal.log("warning", "execute", f"the engine did not give its metrics: {type(error).__name__}")
        assert self._zero_s is not None
        self._merger.add_gauges(asked_s - self._zero_s, gauges)
        self._journal.add_all(self._merger.take())

    def _power_facts(self) -> dict[str, Any]:
        """What the chips drew over the window; without a meter, why there is none."""
        if self._power is None or self._zero_s is None or self._done is None:
            return {"source": None, "unmetered": self._unmetered}
        edges = (self._done["window_start_s"], self._done["window_end_s"])
        return self._power.facts(*(None if edge is None else edge + self._zero_s for edge in edges))

    def _before_window(self) -> dict[str, Any]:
        """How warm the server was when the window began: its age, where that is known, and the warm-up it had."""
        assert self._done is not None
        start_s, age_s = self._done["window_start_s"], self._served.ready.facts.get("server_age_s")
        told: dict[str, Any] = {"warmup_requests": self._spec.workload.warmup.num_requests, "warmup_s": start_s}
        if start_s is None or age_s is None or self._zero_s is None:
            return {**told, "server_age_s": None}
        return {**told, "server_age_s": age_s + self._zero_s + start_s - self._ready_s}

    def _report(self, facts: dict[str, Any]) -> Report:
        """Raises RunFailed where the server went before the load had ended."""
        assert self._done is not None
        client = self._done["client"]
        if client.get("server_gone"):
            raise RunFailed("the server no longer took connections", retry=True)
        return Report(
            outcome="succeeded",
            window_start_s=self._done["window_start_s"],
            window_end_s=self._done["window_end_s"],
            client=client,
            facts=facts,
        )


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
