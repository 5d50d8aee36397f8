"""What a node tells its lab of its engines: kind, name, version, what a document may set, and which models it has.

Addresses, commands, environments and keys are no part of it. A version is what the engine's own command says; asking
takes as long as it takes, so it is done on a thread of its own.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from runners import processes
from runners.engines.commands import settings_taken
from runners.engines.listed import BadEngineList, Engine, ManagedEngine, read_engines

VERSION_WITHIN_S = 60.0
MAX_VERSION = 200
MAX_PROBLEM = 300
_FIRST_LINE = re.compile(r"\S.*")

log = logging.getLogger(__name__)


def offer_of(engine: Engine) -> dict[str, Any]:
    """The engine as the lab is told of it."""
    told: dict[str, Any] = {"kind": engine.kind, "name": engine.name, "dialect": engine.dialect}
    if isinstance(engine, ManagedEngine):
        version, problem = version_of(engine)
        return told | {"version": version, "settings": settings_taken(engine.command), "problem": problem}
    return told | {"models": list(engine.serves)}


def version_of(engine: ManagedEngine) -> tuple[str, str]:
    """(what its version command says, what is wrong with the engine), each empty where there is nothing to say."""
    if shutil.which(engine.command[0], path=search_path(engine)) is None:
        return "", f"the node has no command {Path(engine.command[0]).name}"
    if not engine.version_command:
        return "", ""
    try:
        answer = subprocess.run(
            engine.version_command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_WITHIN_S,
            env=processes.marked_environment(extra=engine.environment),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"its version command failed: {type(error).__name__}"[:MAX_PROBLEM]
    if answer.returncode:
        return "", f"its version command ended with status {answer.returncode}"
    found = _FIRST_LINE.search(answer.stdout.decode(errors="replace"))
    return "".join(filter(str.isprintable, found[0]))[:MAX_VERSION] if found else "", ""


def search_path(engine: ManagedEngine) -> str:
    """Where its command is looked for: as the process that starts it will."""
    return engine.environment.get("PATH", os.environ.get("PATH", os.defpath))


class EngineOffers:
    """The node's offers, looked at again when the list has changed. `news` never waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._found: list[dict[str, Any]] | None = None
        self._thread: threading.Thread | None = None

    def news(self) -> list[dict[str, Any]] | None:
        """All that are offered, once after each change of the list; else None."""
        if self._thread is not None:
            if self._thread.is_alive():
                return None
            self._thread = None
            found, self._found = self._found, None
            return found
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            self._thread = threading.Thread(target=self._look, name="engines", daemon=True)
            self._thread.start()
        return None

    @property
    def is_idle(self) -> bool:
        """Whether no look at the list is under way or waits to be told."""
        return self._thread is None

    def _look(self) -> None:
        try:
            listed = read_engines(self._path)
        except BadEngineList as error:
            log.error("the engines that were offered stay so: %s", error)
            return
        self._found = [offer_of(engine) for engine in listed.values()]

    def _stamp(self) -> tuple[int, int]:
        """When the list was last written, and its size; zeros without one."""
        try:
            stat = self._path.stat()
        except OSError:
            return (0, 0)
        return stat.st_mtime_ns, stat.st_size
