"""The traces that a node keeps: fetched from its lab when a run replays one, checked, and the oldest given up again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from runners.agent.control import ControlPlane
from runners.execution.trace_file import SUFFIX, trace_path
from runners.models.errors import NO_ROOM
from runners.spec import RunSpec
from runners.traces.keeping import digest_of

KEPT = 20
"""Files; what a node's disk holds of traces is bounded by that."""


class TraceNotHad(Exception):
    """The file did not come as it should, or can't be kept. `retry` says whether another try may do."""

    def __init__(self, message: str, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry


def have_trace(spec: RunSpec, traces_dir: Path, control: ControlPlane) -> None:
    """Sees to it that the run's trace, where it has one, lies in `traces_dir`. Raises ControlError and TraceNotHad."""
    if spec.trace is None:
        return
    path = trace_path(traces_dir, spec.trace.sha256)
    try:
        traces_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            os.utime(path)
            return
        _give_up_oldest(traces_dir)
        _fetch(spec.trace.sha256, spec.trace.bytes, path, control)
    except OSError as error:
        raise TraceNotHad(f"it can't be kept: {error}", error.errno not in NO_ROOM) from error


def _fetch(sha256: str, size: int, path: Path, control: ControlPlane) -> None:
    descriptor, draft = tempfile.mkstemp(prefix=".draft-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            control.save_trace(sha256, file, size)
        if digest_of(Path(draft)) != sha256:
            raise TraceNotHad("what came has another SHA-256 than the run was made for", retry=True)
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)


def _give_up_oldest(traces_dir: Path) -> None:
    """Of the files, so many that one more can be kept. Those used last stay."""
    kept = sorted(traces_dir.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in kept[: max(len(kept) - KEPT + 1, 0)]:
        path.unlink(missing_ok=True)
