"""A run's model on this node: fetched where it is missing, checked, and told how far, before the run's clock starts.

Fetching and checking happen in a thread; a cancel stops them within moments and leaves nothing of a model half here.
Where the model is here and its hashes are known, nothing is told.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runners.execution.errors import RunFailed
from runners.execution.journal import Journal
from runners.models import BadEntry, ModelEntry, ModelError, UnknownModel, fetch, get
from runners.shapes import shape_hash
from runners.spec import ModelRef

TELL_EVERY_S = 0.5


async def have_model(model: ModelRef, models_dir: Path, journal: Journal) -> Path:
    """The path of the model's file or folder, each file with the hash that the run was frozen with. Raises RunFailed.

    Cancelled, it first waits until the fetch has cleared up.
    """
    entry = entry_of(model)
    loop, stop = asyncio.get_running_loop(), threading.Event()
    told = Told(entry.name, lambda detail: loop.call_soon_threadsafe(journal.status, "fetching", None, detail))

    def work() -> Path:
        return fetch(entry, models_dir, told.fetching, checking=told.checking, stop=stop)

    fetching = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(fetching)
    except ModelError as error:
        raise RunFailed(str(error), retry=error.retry) from error
    finally:
        stop.set()
        await asyncio.wait({fetching})
        fetching.exception()  # looked at, so that asyncio does not report it as forgotten


def check_shape(model: ModelRef) -> ModelRef:
    """The model of random weights itself, as there is no file to have. Raises RunFailed where it isn't what the run
    was frozen with."""
    if (found := shape_hash(model.shape)) != model.sha256:
        raise RunFailed(f"{model.name} was frozen with SHA-256 {model.sha256}, its shape has {found}", retry=False)
    return model


def model_facts(model: ModelRef) -> dict[str, Any]:
    """What a run says of the model that it ran."""
    return {"name": model.name, "sha256": model.sha256, "random_weights": model.random_weights}


def entry_of(model: ModelRef) -> ModelEntry:
    """The registered model that the run was frozen with. Raises RunFailed where it isn't what the run names."""
    try:
        entry = ModelEntry.from_dict(model.entry) if model.entry is not None else get(model.name)
    except (BadEntry, UnknownModel) as error:
        raise RunFailed(f"model {model.name!r} can't be had: {error}", retry=False) from error
    if (entry.name, entry.sha256) != (model.name, model.sha256):
        raise RunFailed(
            f"{entry.name} is registered with SHA-256 {entry.sha256}, the run was made for {model.name} with "
            f"{model.sha256}",
            retry=False,
        )
    return entry


class Told:
    """Passes progress on as words, a percent at a time and not more often than twice a second."""

    def __init__(self, name: str, say: Callable[[str], object]) -> None:
        self._name = name
        self._say = say
        self._last = ""
        self._at_s = float("-inf")

    def fetching(self, done_bytes: int, total_bytes: int) -> None:
        if done_bytes < total_bytes or self._last:
            self._tell("fetching", done_bytes, total_bytes)

    def checking(self, done_bytes: int, total_bytes: int) -> None:
        self._tell("checking", done_bytes, total_bytes)

    def _tell(self, act: str, done_bytes: int, total_bytes: int) -> None:
        words = f"{act} {self._name}: {100 * done_bytes // max(total_bytes, 1)} %"
        now_s = time.monotonic()
        if words != self._last and (now_s - self._at_s >= TELL_EVERY_S or done_bytes == total_bytes):
            self._last, self._at_s = words, now_s
            self._say(words)
