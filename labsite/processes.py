"""Starting and ending processes: own sessions, death with the parent, an unprivileged user.

It keeps nothing running; that is `labsite.supervisor`.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SYSTEM_USER = "inference-lab"

_libc = ctypes.CDLL(None, use_errno=True)


class StartFailed(Exception):
    """A process did not come up; the message names it and what it said last."""


@dataclass(frozen=True)
class SystemUser:
    name: str
    uid: int
    gid: int


def adopt_orphans(yes: bool = True) -> None:
    """Orphans among our descendants become our own children (we are their subreaper), so that none can slip away."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def spawn(
    argv: Sequence[str | Path],
    *,
    log: Path | None,
    env: dict[str, str],
    cwd: Path | None = None,
    outlives_us: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, its output appended to `log` (None: our own output).

    Unless it may outlive us, the kernel sends it SIGTERM when the calling thread ends.
    """
    output = log.open("ab") if log else None
    try:
        return subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            env=env,
            cwd=cwd,
            start_new_session=log is not None,
            preexec_fn=None if outlives_us else _die_with_parent(os.getpid()),
        )
    finally:
        if output:
            output.close()


def _die_with_parent(parent: int) -> Callable[[], None]:
    def arrange() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # the parent was gone before we asked
            os._exit(1)

    return arrange


def end_processes(processes: Iterable[psutil.Process], grace_s: float) -> None:
    """SIGTERM to all, SIGKILL to those that are left after the grace; returns when none is left."""
    remaining = [process for process in processes if _send(process, signal.SIGTERM)]
    _, remaining = psutil.wait_procs(remaining, timeout=grace_s)
    for process in remaining:
        _send(process, signal.SIGKILL)
    psutil.wait_procs(remaining, timeout=5)


def _send(process: psutil.Process, signal_number: int) -> bool:
    try:
        process.send_signal(signal_number)
    except psutil.NoSuchProcess:
        return False
    return True


def wait_until(condition: Callable[[], bool], timeout_s: float, poll_s: float = 0.05) -> bool:
    """Whether the condition came true before the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True


def last_lines(log: Path, count: int = 4) -> str:
    try:
        return " | ".join(log.read_text(errors="replace").strip().splitlines()[-count:])
    except FileNotFoundError:
        return "(no log)"


def service_user() -> SystemUser | None:
    """Who runs PostgreSQL where we are root, which it refuses: a system user made on first need."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _add_system_user()
        entry = pwd.getpwnam(SYSTEM_USER)
    return SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _add_system_user() -> None:
    command = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    try:
        subprocess.run([*command, SYSTEM_USER], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or error
        raise StartFailed(
            f"PostgreSQL refuses to run as root, and no system user {SYSTEM_USER} could be made for it ({why}); "
            "run the lab as another user, or set DATABASE_URL"
        ) from error


def command_prefix(user: SystemUser | None, needed: Iterable[Path]) -> list[str]:
    """What to put before a command so that it runs as `user` and can use the needed paths.

    Where one lies below a directory closed to others (a clone in /root), the process keeps the one capability
    that lets it pass; no permission on the machine is changed.
    """
    if user is None:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise StartFailed("setpriv (package util-linux) is needed to run PostgreSQL when the lab runs as root")
    prefix = [setpriv, f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups", "--no-new-privs"]
    if all(_open_to(user, path) for path in needed):
        return prefix
    keep = "-all,+dac_override"
    return [*prefix, f"--inh-caps={keep}", f"--ambient-caps={keep}"]


def _open_to(user: SystemUser, path: Path) -> bool:
    return all(_may_pass(user, step.stat()) for step in [path, *path.parents])


def _may_pass(user: SystemUser, status: os.stat_result) -> bool:
    if status.st_uid == user.uid:
        needed = stat.S_IXUSR | stat.S_IRUSR
    elif status.st_gid == user.gid:
        needed = stat.S_IXGRP
    else:
        needed = stat.S_IXOTH
    return status.st_mode & needed == needed
