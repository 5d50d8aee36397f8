"""Which engine serves a run: the built-in one, a command that this node starts, or an endpoint that is there already.

`serve` gives it ready to take requests, and ends with it gone or left as it was found. Names come from the run, what
they stand for from the operator's list on this node. The load itself is the same for all (runners.load); what an engine
is asked beside it is in runners.execution.endpoint.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runners.engines import commands
from runners.engines.commands import BadCommand
from runners.engines.listed import (
    BadEngineList,
    DialectName,
    Engine,
    ExternalEngine,
    KeyMissing,
    ManagedEngine,
    read_engines,
)
from runners.engines.offers import version_of
from runners.execution.child import Command
from runners.execution.endpoint import Endpoint
from runners.execution.errors import RunFailed
from runners.execution.journal import Journal
from runners.execution.server import ReadyServer, make_server, wait_until_ready
from runners.spec import ModelRef, RunSpec

HOST = "127.0.0.1"
STOP_WITHIN_S = 10.0


@dataclass(frozen=True)
class Served:
    """An engine that takes requests. `process` is the one that this run started, `metrics_url` where its gauges are
    read (the built-in engine gives its steps instead); the key is in no repr."""

    ready: ReadyServer
    process: Command | None = None
    dialect: DialectName = "lab"
    prompts_as: Literal["ids", "text"] = "ids"
    metrics_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    gives_steps: bool = False

    def client_config(self) -> dict[str, Any]:
        """What the load client must know of it."""
        config = {"url": self.ready.url, "model": self.ready.model}
        said = {"dialect": self.dialect, "prompts_as": self.prompts_as, "api_key": self.api_key}
        return config | {name: value for name, value in said.items() if value is not None}


@asynccontextmanager
async def serve(
    spec: RunSpec, model: Path | ModelRef, journal: Journal, engines_file: Path | None
) -> AsyncIterator[Served]:
    """The engine that the run names, ready. Raises RunFailed."""
    if spec.engine.kind == "builtin":
        began_s = time.monotonic()
        async with make_server(spec.engine, model, journal) as server:
            ready = await wait_until_ready(server)
            age = {"prefix_cache": "empty: the server is new", "server_age_s": time.monotonic() - began_s}
            facts = {"kind": "builtin", **ready.facts, **age}
            yield Served(ReadyServer(ready.url, ready.model, facts), server, gives_steps=True)
        return
    engine = find_engine(spec, engines_file)
    if isinstance(engine, ExternalEngine):
        yield await _connect(spec, engine, journal)
        return
    if not isinstance(model, Path):
        raise RunFailed(f"{model.name} has random weights and no file, which {engine.name} can't load", retry=False)
    async with _start(spec, engine, model, journal) as served:
        yield served


def find_engine(spec: RunSpec, engines_file: Path | None) -> Engine:
    """The engine of that kind and name in the operator's list. Raises RunFailed."""
    try:
        listed = read_engines(engines_file) if engines_file is not None else {}
    except BadEngineList as error:
        raise RunFailed(f"the node's list of engines can't be used: {error}", retry=False) from error
    engine = listed.get(spec.engine.name or "")
    if engine is None or engine.kind != spec.engine.kind:
        raise RunFailed(f"this node offers no {spec.engine.kind} engine {spec.engine.name!r}", retry=True)
    if isinstance(engine, ExternalEngine) and spec.model.name not in engine.serves:
        serves = ", ".join(engine.serves)
        raise RunFailed(f"{engine.name} does not serve {spec.model.name}; it serves {serves}", retry=False)
    return engine


async def _connect(spec: RunSpec, engine: ExternalEngine, journal: Journal) -> Served:
    try:
        key = engine.api_key()
    except KeyMissing as error:
        raise RunFailed(str(error), retry=False) from error
    journal.status("starting", detail=f"endpoint {engine.name}")
    endpoint = Endpoint(engine, engine.base_url, engine.model, key)
    async with endpoint:
        facts = {"kind": "external", "name": engine.name, **await endpoint.look(shares_prefixes(spec), fresh=False)}
    ready = ReadyServer(engine.base_url, engine.model, facts)
    return _served(ready, engine, facts, api_key=key)


@asynccontextmanager
async def _start(spec: RunSpec, engine: ManagedEngine, model: Path, journal: Journal) -> AsyncIterator[Served]:
    """Starts its command, waits until it is well, and stops it."""
    version, problem = version_of(engine)
    port = free_port()
    try:
        command, name = commands.fill(engine.command, values := run_values(spec, model, port)), engine.model
        (known_as,) = commands.fill([name], values)
    except BadCommand as error:
        raise RunFailed(f"{engine.name}: {error}", retry=False) from error
    journal.status("starting", detail=f"{engine.name} {version}".strip())
    started_s = time.monotonic()
    # It stays in the run's process group, so that whatever ends the run ends it and all that it starts.
    child = Command(engine.name, command, journal, speaks=False, environment=engine.environment, grace_s=STOP_WITHIN_S)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(child)
        except OSError as error:
            why = problem or error.strerror or str(error)
            raise RunFailed(f"{engine.name} can't be started: {why}", retry=False) from error
        endpoint = await stack.enter_async_context(Endpoint(engine, f"http://{HOST}:{port}", known_as, None))
        await endpoint.wait_until_well(child, engine.health, engine.ready_within_s)
        ready_s = time.monotonic() - started_s
        facts = {
            "kind": "managed",
            "name": engine.name,
            "command_sha256": commands.digest(engine.command, engine.environment),
            "settings": {name: values[name] for name in commands.settings_taken(engine.command)},
            "started_within_s": ready_s,
            **await endpoint.look(shares_prefixes(spec), fresh=True),
        }
        facts["version"] = version or facts.get("version")
        facts["server_age_s"] = time.monotonic() - started_s
        yield _served(ReadyServer(endpoint.url, known_as, facts), engine, facts, process=child)


def _served(
    ready: ReadyServer,
    engine: Engine,
    facts: Mapping[str, Any],
    *,
    process: Command | None = None,
    api_key: str | None = None,
) -> Served:
    return Served(
        ready,
        process,
        engine.dialect,
        facts["prompts_as"],
        f"{ready.url}{engine.metrics}" if facts["metrics"] else None,
        api_key,
    )


def run_values(spec: RunSpec, model: Path, port: int) -> dict[str, object]:
    """What the placeholders of a command stand for in this run (runners.engines.commands)."""
    engine, longest = spec.engine, spec.longest
    return {
        "model_path": model,
        "model": spec.model.name,
        "host": HOST,
        "port": port,
        "max_model_len": longest,
        "total_tokens": longest * engine.max_num_seqs,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "block_size": engine.block_size,
        "threads": usable_cores() if engine.threads == "auto" else engine.threads,
        "weights": engine.weights,
        "kv_cache": engine.kv_cache,
    }


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_port() -> int:
    """One that was free just now; an engine that finds it taken dies at its start, and says so."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def shares_prefixes(spec: RunSpec) -> bool:
    """Whether requests of the workload share prompts on purpose, so that a warm cache is part of what is measured."""
    workload = spec.workload
    return workload.shared_prefix is not None or workload.kind in ("conversation", "agent", "trace")
