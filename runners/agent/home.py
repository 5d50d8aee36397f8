"""The node's home: the directory that holds its credentials, its spools and what it knows of its chip.

One agent works in a home at a time (a lock says so). Secrets are readable by their owner alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict

from runners.spool import SUFFIX, AttemptKey

WORK_SUFFIXES = (SUFFIX, ".spec.json", ".log")


class HomeInUse(Exception):
    """Another agent works in this home."""


class NotJoined(Exception):
    """There are no credentials in this home."""


class Credentials(BaseModel):
    """What the lab gave this node when it joined, and where the lab is."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    node: str
    name: str = ""
    kind: Literal["measured", "modelled"]
    chip: dict[str, Any] | None = None
    api_token: str
    broker_url: str
    key_prefix: str
    queue: str = "runs"

    @property
    def modelled(self) -> bool:
        return self.kind == "modelled"

    def stream_key(self, run_id: int) -> str:
        return f"{self.key_prefix}run:{run_id}"


class NodeHome:
    """Paths of a node's home, and the few files that outlive an agent."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.spool_dir = self.root / "spool"
        self.spool_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.traces_dir = self.root / "traces"
        self._lock: IO[str] | None = None

    def acquire(self) -> None:
        """Takes the home for this process until it ends. Raises HomeInUse."""
        lock = (self.root / "agent.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise HomeInUse(f"an agent already works in {self.root} (pid {lock.read().strip() or '?'})") from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def credentials(self) -> Credentials:
        """Raises NotJoined."""
        content = self.read_json("node.json")
        if content is None:
            raise NotJoined(f"{self.root} holds no node: join one with `inference-lab-node join URL --token TOKEN`")
        return Credentials.model_validate(content)

    def save_credentials(self, credentials: Credentials) -> None:
        self.write_json("node.json", credentials.model_dump())

    def read_json(self, name: str) -> dict[str, Any] | None:
        """The object in that file of the home, or None where there is no such file."""
        try:
            content: dict[str, Any] = json.loads((self.root / name).read_text())
        except FileNotFoundError:
            return None
        return content

    def write_json(self, name: str, content: dict[str, Any]) -> Path:
        """Writes it whole or not at all, for the owner's eyes alone (mkstemp makes mode 0600). Raises OSError."""
        path = self.root / name
        descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(content, file)
            os.replace(draft, path)
        except OSError:
            os.unlink(draft)
            raise
        return path

    def spool(self, key: AttemptKey) -> Path:
        return self.spool_dir / f"{key}{SUFFIX}"

    def spec(self, key: AttemptKey) -> Path:
        return self.spool_dir / f"{key}.spec.json"

    def log(self, key: AttemptKey) -> Path:
        return self.spool_dir / f"{key}.log"

    def mark(self, key: AttemptKey) -> str:
        """What the attempt's processes are known by: on one machine, nodes of other labs have runs of that number."""
        return str(self.spool_dir / str(key))

    def spooled(self) -> list[AttemptKey]:
        """The attempts that have a spool here, oldest run first."""
        return sorted(
            AttemptKey.parse(path.name.removesuffix(SUFFIX)) for path in self.spool_dir.glob(f"[0-9]*{SUFFIX}")
        )

    def discard(self, key: AttemptKey) -> None:
        """Deletes what is kept of an attempt; the spool last, for as long as it is there the rest is looked after."""
        for suffix in reversed(WORK_SUFFIXES):
            (self.spool_dir / f"{key}{suffix}").unlink(missing_ok=True)
