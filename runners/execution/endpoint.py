"""What an engine that is not ours is asked beside the load: is it well, what is it, does it take token ids, its gauges.

Each question has a deadline. What an engine does not offer is a fact with the value null; what no run can do without
(an answer to one request) ends the run.
"""

from __future__ import annotations

import asyncio
import json
import time
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp

from runners.engines.exposition import Gauges, read_gauges
from runners.engines.listed import Engine
from runners.execution.child import Command
from runners.execution.errors import RunFailed

ANSWER_WITHIN_S = 60.0
ASK_WITHIN_S = 5.0
POLL_S = 0.1
MAX_BODY_BYTES = 4 * 1024 * 1024
# Nothing special in any vocabulary that serves text, and answered in one step.
PROBE_IDS, PROBE_TEXT = [40, 41, 42, 43], "One two three"
# Where an engine says its version, and the key of the answer that has it.
VERSION_AT = {
    "vllm": ("/version", "version"),
    "sglang": ("/get_server_info", "version"),
    "llamacpp": ("/props", "build_info"),
}


class _Refused(Exception):
    """An answer with an error's status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


class Endpoint:
    """`async with Endpoint(...)`: one engine at an address, while a run is made ready. `key` is in no error's words."""

    def __init__(self, engine: Engine, url: str, model: str, key: str | None) -> None:
        self.url, self._engine, self._model, self._key = url, engine, model, key

    async def __aenter__(self) -> Self:
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        self._http = aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=ASK_WITHIN_S))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def wait_until_well(self, child: Command, path: str, within_s: float) -> None:
        """Until it answers with 200. Raises RunFailed where it ends before, or takes longer."""
        deadline_s, last = time.monotonic() + within_s, "no answer"
        while time.monotonic() < deadline_s:
            if child.has_ended:
                raise RunFailed(f"at its start {await child.died()}", retry=child.was_killed)
            try:
                async with self._http.get(f"{self.url}{path}") as response:
                    if response.status == 200:
                        return
                    last = f"HTTP {response.status}"
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                last = type(error).__name__
            await asyncio.sleep(POLL_S)
        words = f": {child.last_words}" if child.last_words else ""
        raise RunFailed(f"{child.name} was not ready after {within_s:g} s ({path}: {last}){words}", retry=True)

    async def look(self, shares_prefixes: bool, *, fresh: bool) -> dict[str, Any]:
        """What the engine is, as facts of the run. Asks for one token, and empties its prefix cache, except where the
        engine is `fresh` or the workload means prompts to meet a warm one. Raises RunFailed."""
        prompts_as = await self._prompts_as()
        gauges = await self._gauges()
        facts: dict[str, Any] = {
            "dialect": self._engine.dialect,
            "prompts_as": prompts_as,
            "served_model": self._model,
            "metrics": None if gauges is None else {"of": gauges.source, "read": list(gauges.names)},
            "prefix_cache": "kept: the workload shares prefixes" if shares_prefixes else await self._clear_cache(fresh),
            "server_age_s": _age_s(gauges),
        }
        version = await self._version()
        return facts if version is None else {**facts, "version": version}

    async def _prompts_as(self) -> Literal["ids", "text"]:
        """As listed; where that is left to us, ids where it answers to them. Raises RunFailed."""
        asked = self._engine.prompts
        try:
            if asked == "text":
                await self._complete(PROBE_TEXT)
                return "text"
            try:
                await self._complete(PROBE_IDS)
                return "ids"
            except _Refused as refusal:
                if asked == "ids" or refusal.status in (401, 403, 404, 429) or refusal.status >= 500:
                    raise
                await self._complete(PROBE_TEXT)
                return "text"
        except _Refused as refusal:
            message = self._without_key(f"{self._engine.name} refuses a request of one token: {refusal}")
            raise RunFailed(message, retry=refusal.status == 429 or refusal.status >= 500) from None
        except TimeoutError:
            message = f"{self._engine.name} gave no token within {ANSWER_WITHIN_S:g} s"
            raise RunFailed(message, retry=True) from None
        except (aiohttp.ClientError, OSError) as error:
            message = self._without_key(f"{self._engine.name} can't be reached: {error}")
            raise RunFailed(message, retry=True) from None

    async def _complete(self, prompt: str | list[int]) -> None:
        """Raises _Refused, aiohttp.ClientError, TimeoutError; RunFailed where the answer is no completion."""
        body = {"model": self._model, "prompt": prompt, "max_tokens": 1, "temperature": 0.0}
        deadline = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
        async with self._http.post(f"{self.url}/v1/completions", json=body, timeout=deadline) as response:
            text = (await _read(response)).decode(errors="replace")
        if response.status != 200:
            raise _Refused(response.status, _message(text))
        try:
            content = json.loads(text)
            answered = isinstance(content["choices"][0]["text"], str)
        except (ValueError, LookupError, TypeError):
            answered = False
        if not answered:
            said = self._without_key(text.strip()[:100])
            raise RunFailed(f"{self._engine.name} answers, but not with a completion: {said!r}", retry=False)

    async def _gauges(self) -> Gauges | None:
        """None where it has no metrics, or none for us."""
        if not self._engine.metrics:
            return None
        try:
            return await read_metrics(self._http, f"{self.url}{self._engine.metrics}")
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    async def _version(self) -> str | None:
        path, key = VERSION_AT.get(self._engine.dialect, ("", ""))
        if not path:
            return None
        try:
            async with self._http.get(f"{self.url}{path}") as response:
                content = json.loads(await _read(response)) if response.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
        found = content.get(key) if isinstance(content, dict) else None
        return str(found)[:200] if found else None

    async def _clear_cache(self, fresh: bool) -> str:
        """What became of the engine's prefix cache, in words."""
        if fresh:
            return "empty: the engine was started for this run"
        try:
            match self._engine.dialect:
                case "vllm":
                    return await self._post("/reset_prefix_cache")
                case "sglang":
                    return await self._post("/flush_cache")
                case "llamacpp":
                    return await self._erase_slots()
                case _:
                    return "not cleared: the engine has no way that is known"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return f"not cleared: {type(error).__name__}"

    async def _post(self, path: str) -> str:
        async with self._http.post(f"{self.url}{path}") as response:
            return "cleared" if response.status == 200 else f"not cleared: {path} answers with HTTP {response.status}"

    async def _erase_slots(self) -> str:
        async with self._http.get(f"{self.url}/slots") as response:
            if response.status != 200:
                return f"not cleared: /slots answers with HTTP {response.status}"
            slots = json.loads(await _read(response))
        said = {await self._post(f"/slots/{int(slot['id'])}?action=erase") for slot in slots}
        return next((one for one in sorted(said) if one != "cleared"), "cleared")

    def _without_key(self, text: str) -> str:
        return text if self._key is None else text.replace(self._key, "[key]")


async def read_metrics(http: aiohttp.ClientSession, url: str, key: str | None = None) -> Gauges | None:
    """What the engine says of itself now; None where there are no metrics there, or none that are known. Raises
    aiohttp.ClientError, TimeoutError."""
    headers = None if key is None else {"Authorization": f"Bearer {key}"}
    async with http.get(url, headers=headers) as response:
        if response.status != 200:
            return None
        text = (await _read(response)).decode(errors="replace")
    gauges = read_gauges(text)
    return gauges if gauges.source is not None or gauges.started_s is not None else None


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Its body, as far as MAX_BODY_BYTES."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) >= MAX_BODY_BYTES:
            break
    return bytes(body[:MAX_BODY_BYTES])


def _age_s(gauges: Gauges | None) -> float | None:
    """Of an engine whose metrics say when its process started, by both hosts' clocks."""
    return None if gauges is None or gauges.started_s is None else max(time.time() - gauges.started_s, 0.0)


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["message"])[:300]
    except (ValueError, LookupError, TypeError):
        return text.strip()[:200] or "no body"
