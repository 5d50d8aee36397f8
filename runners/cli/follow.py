"""`watch` and `wait`: an experiment to its end. How it went decides the exit status.

A lab that restarts meanwhile is waited for; only the lab's own word or the time limit ends the following.
"""

from __future__ import annotations

import time
from typing import Protocol

import typer
from rich.console import Console

from runners.cli.client import Client, Json
from runners.cli.errors import NOT_GOOD, TimedOut, Unreachable
from runners.cli.options import ExperimentId, TimeoutOption
from runners.cli.progress import Bars, Lines
from runners.cli.searches import whole_view
from runners.cli.session import JsonOption, Session, session_of, show

POLL_S = 1.0
# How long the lab may be away before the following ends.
PATIENCE_S = 60.0
OVER = ("done", "cancelled")


class View(Protocol):
    """What is shown while an experiment is followed; `live` has the latest sample of each run under way."""

    def update(self, experiment: Json, live: dict[int, Json | None]) -> None: ...

    def close(self) -> None: ...


class _Silent:
    def update(self, experiment: Json, live: dict[int, Json | None]) -> None:
        return None

    def close(self) -> None:
        return None


def watch(
    context: typer.Context, experiment: ExperimentId, timeout: TimeoutOption = None, as_json: JsonOption = False
) -> None:
    """Follow an experiment to its end, with a bar for it and one for each run under way."""
    session = session_of(context)
    finish(session, follow(session.client, session.notes, experiment, timeout, bars=True), as_json)


def wait(
    context: typer.Context, experiment: ExperimentId, timeout: TimeoutOption = None, as_json: JsonOption = False
) -> None:
    """Wait for an experiment's end, silently. Exit status 1 unless every run is valid."""
    session = session_of(context)
    finish(session, follow(session.client, session.notes, experiment, timeout, bars=False), as_json)


def follow(client: Client, console: Console, experiment_id: int, timeout_s: float | None = None, *, bars: bool) -> Json:
    """The experiment once it is over. Raises TimedOut, Refused, Unreachable."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    client.patience_s = PATIENCE_S
    view = _view(console) if bars else _Silent()
    try:
        while True:
            experiment: Json = client.get(f"/experiments/{experiment_id}")
            view.update(experiment, _live(client, experiment) if bars else {})
            if is_over(experiment):
                return experiment
            left = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if left <= 0:
                raise TimedOut(f"experiment {experiment_id} is {experiment['state']} after {timeout_s:g} s")
            time.sleep(left)
    finally:
        view.close()


def is_over(experiment: Json) -> bool:
    """Its state says so, and nothing of it runs or waits for its results."""
    runs = all_runs(experiment)
    settled = all(run["state"] != "succeeded" or run["valid"] is not None for run in runs)
    return experiment["state"] in OVER and settled and not any(run["state"] in ("assigned", "running") for run in runs)


def all_runs(experiment: Json) -> list[Json]:
    return [run for trial in experiment["trials"] for run in trial["runs"]]


def is_good(experiment: Json) -> bool:
    runs = all_runs(experiment)
    return experiment["state"] == "done" and bool(runs) and all(run["valid"] for run in runs)


def finish(session: Session, experiment: Json, as_json: bool) -> None:
    show(session, experiment, as_json, lambda: whole_view(experiment))
    if not is_good(experiment):
        raise typer.Exit(NOT_GOOD)


def _view(console: Console) -> View:
    return Bars(console) if console.is_terminal else Lines(console)


def _live(client: Client, experiment: Json) -> dict[int, Json | None]:
    running = [run["id"] for run in all_runs(experiment) if run["state"] == "running"]
    try:
        return {run_id: client.get(f"/runs/{run_id}")["live"] for run_id in running}
    except Unreachable:
        # The bars can do without for a moment; whether the lab is gone, the next look at the experiment says.
        return dict.fromkeys(running)
