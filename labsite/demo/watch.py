"""Follows an experiment to its end, with a progress bar and the live figures of the run in progress."""

from __future__ import annotations

import time
import urllib.error
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from labsite.demo.client import Api, ApiRefused, Json

POLL_S = 1.0
ENDED = {"succeeded", "failed", "cancelled"}
OVER = {"done", "cancelled"}
# How long the web server may be away (it is restarted when it dies) before the demonstration gives up.
PATIENCE_S = 60.0


def watch_experiment(api: Api, experiment_id: int, console: Console) -> Json:
    """The experiment as the API shows it once it is over."""
    columns = (
        TextColumn("runs"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("waiting for the node", total=None)
        last_answer = time.monotonic()
        while True:
            try:
                experiment = api.get(f"/experiments/{experiment_id}")
                live = _live_figures(api, experiment)
                last_answer = time.monotonic()
            except (ApiRefused, urllib.error.URLError, ConnectionError, TimeoutError) as error:
                refused = isinstance(error, ApiRefused) and error.status < 500
                if refused or time.monotonic() - last_answer > PATIENCE_S:
                    raise
                time.sleep(POLL_S)
                continue
            runs = all_runs(experiment)
            ended = sum(_state(run) in ENDED for run in runs)
            progress.update(task, total=len(runs), completed=ended, description=live)
            if _state(experiment) in OVER:
                return experiment
            time.sleep(POLL_S)


def all_runs(experiment: Json) -> list[Json]:
    return [run for trial in experiment["trials"] for run in trial["runs"]]


def settings_text(settings: dict[str, Any]) -> str:
    """`{"engine.weights": "int8", …}` as `weights int8 · …`: the last part of a path is enough for a person."""
    return " · ".join(f"{path.rpartition('.')[2]} {value}" for path, value in settings.items())


def _state(thing: Json) -> str:
    return str(thing["state"]).lower()


def _live_figures(api: Api, experiment: Json) -> str:
    for trial in experiment["trials"]:
        for run in trial["runs"]:
            if _state(run) == "running":
                live = api.get(f"/runs/{run['id']}").get("live")
                return f"{settings_text(trial['settings'])}: {_figures(live)}"
    return "waiting for the node"


def _figures(sample: Json | None) -> str:
    if not sample or not sample.get("interval_s"):
        return "starting"
    speed = sample["output_tokens"] / sample["interval_s"]
    text = f"{speed:.0f} tok/s, {sample['in_flight']} in flight"
    if sample.get("itl_p50_s") is not None:
        text += f", ITL {sample['itl_p50_s'] * 1000:.0f} ms"
    return text if sample.get("phase") == "measured" else f"warming up, {text}"
