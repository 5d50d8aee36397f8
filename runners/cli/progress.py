"""An experiment on its way: live bars on a terminal, a line for each change anywhere else."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from runners.cli.client import Json
from runners.cli.session import clean
from runners.cli.tables import line
from runners.display import digits, settings_label

ENDED = ("succeeded", "failed", "cancelled")
# Takes what the other columns leave of a narrow terminal.
FIGURES = Column(ratio=1, no_wrap=True, overflow="ellipsis")


class Bars:
    """One bar for the experiment's runs, and one line for each run under way with its latest figures."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=16, table_column=Column(min_width=16)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[figures]}", markup=False, table_column=FIGURES),
            console=console,
            expand=True,
        )
        self._whole: TaskID | None = None
        self._runs: dict[int, TaskID] = {}
        self._progress.start()

    def update(self, experiment: Json, live: dict[int, Json | None]) -> None:
        runs = {run["id"]: (run, trial["settings"]) for trial in experiment["trials"] for run in trial["runs"]}
        if self._whole is None:
            self._whole = self._progress.add_task(f"experiment {experiment['id']}", total=len(runs), figures="")
        ended = sum(run["state"] in ENDED for run, _ in runs.values())
        self._progress.update(self._whole, completed=ended, figures=_course(experiment, ended, len(runs)))
        for run_id, (run, settings) in runs.items():
            if run["state"] in ("assigned", "running"):
                self._show_run(run_id, run, figures_text(run, live.get(run_id)), settings_label(settings))
            elif run_id in self._runs:
                self._progress.remove_task(self._runs.pop(run_id))
                self._progress.console.print(change_text(run), markup=False, highlight=False)

    def close(self) -> None:
        self._progress.stop()

    def _show_run(self, run_id: int, run: Json, figures: str, settings: str) -> None:
        if run_id not in self._runs:
            name = f"  run {run_id} on {line(run['node'])}"
            self._runs[run_id] = self._progress.add_task(name, total=None, figures="")
        self._progress.update(self._runs[run_id], figures=f"{figures} · {clean(settings)}")


class Lines:
    """A line for each run whose state has changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: dict[int, tuple[str, bool | None]] = {}

    def update(self, experiment: Json, live: dict[int, Json | None]) -> None:
        for run in (run for trial in experiment["trials"] for run in trial["runs"]):
            now = run["state"], run["valid"]
            if self._seen.get(run["id"], ("queued", None)) != now:
                self._seen[run["id"]] = now
                self._console.print(change_text(run), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        return None


def change_text(run: Json) -> str:
    """`run 7 succeeded on local: valid`."""
    node = f" on {line(run['node'])}" + (" (modelled)" if run["modelled"] else "") if run["node"] else ""
    validity = {None: "", True: ": valid", False: f": invalid ({', '.join(run['reasons'])})"}[run["valid"]]
    reason = f": {line(run['reason'])}" if run["reason"] else ""
    return clean(f"run {run['id']} {run['state']}{node}{validity}{reason}")


def figures_text(run: Json, sample: Json | None) -> str:
    """What the latest sample of a run says, and that it is modelled where it is."""
    if run["state"] == "assigned":
        return "assigned"
    if not sample or not sample.get("interval_s"):
        return "starting"
    text = f"{digits(sample['output_tokens'] / sample['interval_s'])} tok/s, {sample['in_flight']} in flight"
    if sample.get("itl_p50_s") is not None:
        text += f", ITL {digits(sample['itl_p50_s'] * 1000)} ms"
    if sample.get("phase") != "measured":
        text = f"warming up, {text}"
    return f"modelled: {text}" if run["modelled"] else text


def _course(experiment: Json, ended: int, runs: int) -> str:
    state = "" if experiment["state"] == "active" else f", {line(experiment['state'])}"
    return f"{ended} of {runs} runs{state}"
