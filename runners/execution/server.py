"""The runtime's server as a child of the run: the flags of an EngineSpec, waiting until it is ready, its steps."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from runners.events import KVBlocks, Step
from runners.execution.child import Child
from runners.execution.errors import RunFailed
from runners.execution.journal import Journal
from runners.runtime.model_source import RandomModel
from runners.spec import EngineSpec, ModelRef

READY_WITHIN_S = 300.0
STEPS_PER_PAGE = 5000
# An overloaded engine must queue, so that the load's own clock sees it; a refusal would hide it.
MAX_WAITING = 100_000
_MEMORY = re.compile(r"out of memory|MemoryError|cannot allocate memory|DefaultCPUAllocator", re.IGNORECASE)


@dataclass(frozen=True)
class ReadyServer:
    """Where the server listens, the name it gives its model, and what it says it runs on."""

    url: str
    model: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class StepPage:
    """Steps in order, on the host's monotonic clock; `now_s` is when the server gave them, `kv_blocks` whose the KV
    blocks were a moment before."""

    steps: list[Step]
    next: int
    dropped: int
    now_s: float
    kv_blocks: KVBlocks | None


def server_arguments(engine: EngineSpec, model: Path | ModelRef) -> list[str]:
    """The command line of runners.runtime.server for an engine as the spec has it; a ModelRef is one of random
    weights."""
    named = [str(model)] if isinstance(model, Path) else [model.name, "--shape", RandomModel(model.shape).to_json()]
    arguments = [
        "--model", *named, "--host", "127.0.0.1", "--port", "0", "--weights", engine.weights,
        "--max-num-seqs", str(engine.max_num_seqs), "--max-num-batched-tokens", str(engine.max_num_batched_tokens),
        "--block-size", str(engine.block_size), "--max-waiting", str(MAX_WAITING), "--drain-s", "0.5",
    ]  # fmt: skip
    if not engine.prefix_cache:
        arguments.append("--no-prefix-cache")
    if not engine.scheduler.chunked_prefill:
        arguments.append("--no-chunked-prefill")
    arguments += ["--scheduling-policy", engine.scheduler.policy]
    if engine.threads != "auto":
        arguments += ["--threads", str(engine.threads)]
    return arguments


def make_server(engine: EngineSpec, model: Path | ModelRef, journal: Journal) -> Child:
    return Child("server", "runners.runtime.server", server_arguments(engine, model), journal)


async def wait_until_ready(server: Child, within_s: float = READY_WITHIN_S) -> ReadyServer:
    """Waits for the server's ready line. Raises RunFailed when it ends before, or says nothing for too long.

    A retry makes sense where it was killed or memory was short, not where it refused its options or the model.
    """
    try:
        async with asyncio.timeout(within_s):
            while line := await server.read_line():
                if ready := _parse_ready(line):
                    return ready
    except TimeoutError as error:
        raise RunFailed(f"the server was not ready after {within_s:.0f} s: {server.last_words}", retry=True) from error
    how = await server.died()
    raise RunFailed(f"the {how}", retry=server.was_killed or bool(_MEMORY.search(how)))


async def read_steps(http: aiohttp.ClientSession, url: str, after: int) -> StepPage:
    """One page of GET /lab/steps. Raises aiohttp.ClientError, TimeoutError."""
    async with http.get(f"{url}/lab/steps", params={"after": after, "limit": STEPS_PER_PAGE}) as response:
        response.raise_for_status()
        page = await response.json()
    held = page["kv_blocks"]
    return StepPage(
        [Step(**step) for step in page["steps"]],
        page["next"],
        page["dropped"],
        page["now_s"],
        KVBlocks(**held) if held else None,
    )


def _parse_ready(line: bytes) -> ReadyServer | None:
    try:
        content = json.loads(line)
    except ValueError:  # not ours: something in the server printed
        return None
    if not isinstance(content, dict) or content.get("event") != "ready":
        return None
    return ReadyServer(f"http://{content['host']}:{content['port']}", content["model"], content.get("facts", {}))
