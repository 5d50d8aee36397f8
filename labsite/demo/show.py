"""A comparison as tables for the terminal: medians with their intervals, differences from the baseline."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from labsite.demo.client import Json
from labsite.demo.watch import settings_text
from runners.display import digits


def _milliseconds(value: float) -> str:
    return digits(value * 1000)


COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("output_throughput", "Output throughput, tok/s", digits),
    ("ttft", "TTFT, ms", _milliseconds),
    ("tpot", "TPOT, ms", _milliseconds),
)


def show_comparison(comparison: Json, console: Console) -> None:
    console.print(_trials_table(comparison["trials"]))
    if comparison["differences"]:
        console.print(_differences_table(comparison["differences"]))


def _trials_table(trials: list[Json]) -> Table:
    table = Table(title="Median of the runs [95 % interval]", title_justify="left")
    table.add_column("Setting")
    for _, heading, _ in COLUMNS:
        table.add_column(heading, justify="right")
    table.add_column("Valid runs", justify="right")
    for trial in trials:
        valid = sum(bool(run["valid"]) for run in trial["runs"])
        cells = [_with_interval(trial["metrics"].get(name), shown) for name, _, shown in COLUMNS]
        table.add_row(settings_text(trial["settings"]), *cells, f"{valid} of {len(trial['runs'])}")
    return table


def _with_interval(metric: Json | None, shown: Callable[[float], str]) -> str:
    if metric is None or metric["median"] is None:
        return "–"
    text = shown(metric["median"])
    if metric["low"] is not None and metric["high"] is not None:
        text += f" \\[{shown(metric['low'])}, {shown(metric['high'])}]"
    return text


def _differences_table(differences: list[Json]) -> Table:
    table = Table(title="Against the baseline, paired over repeats", title_justify="left")
    table.add_column("Setting")
    for heading in ("Metric", "Change", "95 % interval", "Verdict"):
        table.add_column(heading, justify="right")
    for name, heading, shown in COLUMNS:
        for difference in differences:
            if difference["metric"] == name:
                table.add_row(settings_text(difference["settings"]), *_difference_cells(difference, heading, shown))
    return table


def _difference_cells(difference: Json, heading: str, shown: Callable[[float], str]) -> tuple[str, str, str, str]:
    relative, low, high = difference["relative"], difference["low"], difference["high"]
    change = "–" if relative is None else f"{relative:+.1%}"
    interval = "–" if low is None or high is None else f"{shown(low)} … {shown(high)}"
    return heading, change, interval, _verdict(difference)


def _verdict(difference: Json) -> str:
    if difference["low"] is None or difference["noise_floor"] is None:
        return "too few valid runs to say"
    return "a difference" if difference["is_difference"] else "within the noise"


def invalid_runs(comparison: Json) -> list[str]:
    """One line for each run that is not valid."""
    return [
        f"run {run['id']} ({settings_text(trial['settings'])}): {_reasons_text(run['reasons'])}"
        for trial in comparison["trials"]
        for run in trial["runs"]
        if not run["valid"]
    ]


def _reasons_text(reasons: list[Json | str]) -> str:
    texts = [reason if isinstance(reason, str) else str(reason.get("message")) for reason in reasons]
    return ", ".join(texts) or "it has no result"
