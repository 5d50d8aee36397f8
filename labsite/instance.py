"""One lab on one home: the lock that keeps a second away, and the port that must be free."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import IO

import psutil


class CannotStart(Exception):
    """The lab can't start here; the message says what is in the way."""


def lock_home(home: Path) -> IO[str]:
    """Holds the home until the file is closed or the process ends, however it ends. Raises CannotStart."""
    file = (home / "lab.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise CannotStart(f"a lab already runs on {home} (process {holder}); stop it, or set LAB_HOME") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def free_port(host: str, port: int) -> int:
    """The port itself if it can be bound, some free one for 0. Raises CannotStart naming the port and its holder."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise CannotStart(f"port {port} on {host} is in use{_holder(port)}; choose --port") from None
            raise CannotStart(f"can't listen on {host} port {port}: {error.strerror}") from None
        return int(probe.getsockname()[1])


def _holder(port: int) -> str:
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
            return f" by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""


def reachable_host(host: str) -> str:
    """A name for `host` that another machine, or this one, can connect to."""
    if host not in ("0.0.0.0", "::", ""):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # documentation address: no packet is sent, a route is chosen
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def allowed_hosts(host: str) -> str:
    """What the web server answers to: this machine's names for itself where it listens on all of them."""
    names = ["localhost", "127.0.0.1", "[::1]"]
    if host in ("0.0.0.0", "::", ""):
        addresses = [address.address for group in psutil.net_if_addrs().values() for address in group]
        names += [socket.gethostname(), *(address for address in addresses if address.count(".") == 3)]
    else:
        names.append(f"[{host}]" if ":" in host else host)
    return ",".join(dict.fromkeys(names))
