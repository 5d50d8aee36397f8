"""The file of the trace that a run replays: where its node keeps it, checked before the run begins.

Getting it from the lab is for the agent (`runners.agent.traces`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runners.execution.errors import RunFailed
from runners.load.trace_plan import TraceSource
from runners.spec import RunSpec
from runners.traces.keeping import digest_of

SUFFIX = ".jsonl"


def trace_path(traces_dir: Path, sha256: str) -> Path:
    return traces_dir / f"{sha256}{SUFFIX}"


def trace_source(spec: RunSpec, traces_dir: Path | None) -> TraceSource | None:
    """None for a run that replays nothing. Raises RunFailed where the file is not there, or not what the run was made
    for."""
    if spec.trace is None:
        return None
    if traces_dir is None:
        raise RunFailed(f"the run replays trace {spec.trace.name}, and this process was given no traces", retry=False)
    path = trace_path(traces_dir, spec.trace.sha256)
    try:
        found = digest_of(path)
    except OSError as error:
        raise RunFailed(f"trace {spec.trace.name} is not on this node: {error}", retry=True) from error
    if found != spec.trace.sha256:
        path.unlink(missing_ok=True)
        raise RunFailed(f"trace {spec.trace.name}: the file has SHA-256 {found}, not {spec.trace.sha256}", retry=True)
    return TraceSource(path, spec.trace, int(spec.model.shape["max_model_len"]))


def trace_facts(spec: RunSpec) -> dict[str, Any]:
    """What a run's provenance says of it."""
    if spec.trace is None:
        return {}
    return {"trace": {"name": spec.trace.name, "sha256": spec.trace.sha256}}
