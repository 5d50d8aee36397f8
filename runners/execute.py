"""`python -m runners.execute --spec FILE --spool FILE --models DIR`: executes one run and writes its events to a spool.

A run that comes to an end of its own, good or bad, ends with a Report and status 0. SIGTERM stops it, with status
143 and without a Report: why it was stopped is for its agent to say. With `--guard-fd` the whole process group ends
when that pipe closes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runners import processes
from runners.agent.detect import detect
from runners.agent.version import code_revision
from runners.events import Report
from runners.execution.errors import RunFailed
from runners.execution.journal import Journal
from runners.execution.measured import execute_measured
from runners.execution.modelled import collect_rarely, execute_modelled
from runners.execution.peaks import read_peaks
from runners.execution.surroundings import surroundings
from runners.spec import RunSpec
from runners.spool import SpoolFull, SpoolWriter

STOPPED = 128 + signal.SIGTERM
REST_WAIT_S = 5.0


def main(argv: list[str] | None = None) -> int:
    options = parse_options(argv)
    if options.guard_fd is not None:
        processes.end_group_with(options.guard_fd)
    journal = Journal(SpoolWriter(options.spool))
    facts = provenance()
    try:
        spec = read_spec(options.spec)
        if options.modelled:
            # No child and nothing to wait for: SIGTERM may end it where it stands.
            collect_rarely()
            report = execute_modelled(spec, journal, facts, options.traces)
        else:
            facts["peaks"] = read_peaks(options.ceilings, spec.engine)
            report = asyncio.run(execute(spec, options.models, journal, facts, options.traces, options.engines))
    except asyncio.CancelledError:
        return STOPPED
    except SpoolFull as error:
        report = failure(str(error), error.retry, facts, options.modelled)
    except RunFailed as error:
        report = failure(str(error), error.retry, facts, options.modelled)
    except MemoryError:
        report = failure("this machine has too little memory for the run", True, facts, options.modelled)
    except Exception as error:
        # A fault of ours: the run is reported with it, and the whole trace goes to the agent's log of the run.
        note(traceback.format_exc())
        report = failure(f"the run broke down: {type(error).__name__}: {error}", False, facts, options.modelled)
    if not processes.end_rest_of_group(REST_WAIT_S):
        with suppress(SpoolFull):
            journal.log("error", "execute", "processes of this run are left, and can't be killed")
    journal.close_with(report)
    return 0


def parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m runners.execute", description="Executes one run.")
    parser.add_argument("--spec", type=Path, required=True, help="the run's RunSpec, as JSON")
    parser.add_argument("--spool", type=Path, required=True, help="where its events go, one JSON line each")
    parser.add_argument("--models", type=Path, required=True, help="where model files lie")
    parser.add_argument("--traces", type=Path, help="where the files of traces lie, each by its hash")
    parser.add_argument(
        "--modelled", action="store_true", help="on a virtual clock, by the cost model of the spec's chip"
    )
    parser.add_argument("--ceilings", type=Path, help="what this machine can do at most, as its agent measured it")
    parser.add_argument("--engines", type=Path, help="the operator's list of engines beside the built-in one")
    parser.add_argument("--guard-fd", type=int, help="read end of a pipe that the parent holds open")
    return parser.parse_args(argv)


def read_spec(path: Path) -> RunSpec:
    """Raises RunFailed where it can't be read."""
    try:
        return RunSpec.model_validate(json.loads(path.read_text()))
    except (OSError, ValueError, ValidationError) as error:
        raise RunFailed(f"the run's spec can't be read: {error}", retry=False) from error


async def execute(
    spec: RunSpec,
    models_dir: Path,
    journal: Journal,
    facts: dict[str, Any],
    traces_dir: Path | None = None,
    engines_file: Path | None = None,
) -> Report:
    """The Report of a measured run. SIGTERM and SIGINT cancel it: its children are ended first."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await execute_measured(spec, models_dir, journal, facts, traces_dir, engines_file)


def provenance() -> dict[str, Any]:
    """What the run ran on, as far as is known before it starts. `machine` is this host, modelled chip or not."""
    machine = detect()
    return {
        "chip": machine["chip"],
        "machine": machine | {"name": platform.node()},
        "surroundings": surroundings(),
        "code_revision": code_revision(),
    }


def failure(message: str, retry: bool, facts: dict[str, Any], modelled: bool) -> Report:
    note(f"error: {message}")
    return Report(outcome="failed", error=message, retry=retry, facts=facts, modelled=modelled)


def note(text: str) -> None:
    """Into the agent's log of the run, a file that a full disk does not take: the report matters more."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
