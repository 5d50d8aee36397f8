"""What the lab lists, as tables for a terminal. Every text that somebody else wrote is cleaned on its way in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from runners.cli.bottleneck import bottleneck_view
from runners.cli.client import Json
from runners.cli.predicted import prediction_view
from runners.cli.quality import quality_view
from runners.cli.session import clean
from runners.display import NAMES, digits, model_label, settings_label

STYLES = {
    "done": "green", "succeeded": "green", "online": "green", "running": "cyan", "active": "cyan", "busy": "cyan",
    "failed": "red", "lost": "red", "cancelled": "yellow", "paused": "yellow", "draining": "yellow",
}  # fmt: skip
GIB = 2**30


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[str] = ()) -> Table:
    """Columns named in `numbers` are set right."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(one if isinstance(one, Text) else Text(line(one)) for one in row))
    return made


def line(value: Any) -> str:
    """A value in one line; a dash where there is none."""
    return "–" if value is None or value == "" else clean(value).replace("\n", " ")


def state_text(state: str) -> Text:
    return Text(line(state), style=STYLES.get(state, ""))


def moment(text: str | None) -> str:
    """A time of the API's in the terminal's own zone."""
    return "–" if text is None else f"{dt.datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}"


def experiments_table(items: Iterable[Json]) -> Table:
    headings = ("ID", "State", "Runs", "Name", "Project", "Owner", "Priority", "Created")
    rows = (
        (one["id"], state_text(one["state"]), counts_text(one["counts"]), one["name"], one["project"], one["owner"],
         one["priority"], moment(one["created_at"]))
        for one in items
    )  # fmt: skip
    return table(headings, rows, ("ID", "Priority"))


def counts_text(counts: dict[str, int]) -> str:
    """`3 of 8`, and how many of those that ended did not succeed."""
    ended = {state: counts.get(state, 0) for state in ("succeeded", "failed", "cancelled")}
    bad = [f"{ended[state]} {state}" for state in ("failed", "cancelled") if ended[state]]
    whole = f"{sum(ended.values())} of {sum(counts.values())}"
    return f"{whole} ({', '.join(bad)})" if bad else whole


def runs_table(items: Iterable[Json]) -> Table:
    headings = ("ID", "State", "Valid", "Settings", "Repeat", "Node", "Experiment", "Reason")
    rows = (
        (one["id"], state_text(one["state"]), validity(one), settings_label(one["trial"]["settings"]), repeat(one),
         node_text(one), f"{one['experiment']['id']} {one['experiment']['name']}", why(one))
        for one in items
    )  # fmt: skip
    return table(headings, rows, ("ID", "Repeat"))


def repeat(run: Json) -> int:
    """Counted from one, as the pages show it; the API counts from zero."""
    return int(run["repeat"]) + 1


def validity(run: Json) -> Text:
    if run["valid"] is None:
        return Text("–")
    return Text("valid", style="green") if run["valid"] else Text("invalid", style="red")


def node_text(run: Json) -> str:
    """The node, and that its figures are modelled where they are."""
    return f"{line(run['node'])} (modelled)" if run.get("modelled") else line(run["node"])


def why(run: Json) -> str:
    """Why it ended so, before what that makes of its figures."""
    return ", ".join([run["reason"], *run["reasons"]] if run["reason"] else run["reasons"])


def experiment_view(experiment: Json) -> RenderableType:
    """An experiment with the runs of each trial."""
    facts = [
        ("state", experiment["state"]), ("question", experiment["question"]), ("tags", ", ".join(experiment["tags"])),
        ("project", experiment["project"]), ("owner", experiment["owner"]), ("priority", experiment["priority"]),
        ("created", moment(experiment["created_at"])), ("ended", moment(experiment["ended_at"])),
        ("cloned from", experiment["cloned_from"]), ("reason", experiment["reason"]),
        ("outcome", experiment.get("outcome")), ("page", experiment["url"]),
    ]  # fmt: skip
    rows = [
        (run["id"], trial["index"], settings_label(trial["settings"]), repeat(run), state_text(run["state"]),
         validity(run), node_text(run), why(run))
        for trial in experiment["trials"]
        for run in trial["runs"]
    ]  # fmt: skip
    headings = ("Run", "Trial", "Settings", "Repeat", "State", "Valid", "Node", "Reason")
    title = Text(f"{experiment['id']}  {line(experiment['name'])}", style="bold")
    return Group(title, facts_table(facts), Text(), table(headings, rows, ("Run", "Trial", "Repeat")))


def facts_table(facts: Iterable[tuple[str, Any]]) -> Table:
    made = Table.grid(padding=(0, 2))
    for name, value in facts:
        if line(value) != "–":
            made.add_row(Text(name, style="dim"), Text(line(value), overflow="fold"))
    return made


def run_view(run: Json) -> RenderableType:
    """A run with its figures; a modelled one says so."""
    facts = [
        ("state", run["state"]), ("phase", run["phase"]), ("node", node_text(run)), ("valid", validity(run).plain),
        ("reason", run["reason"]), ("model", model_label(run["spec"]["model"])),
        ("settings", settings_label(run["trial"]["settings"])), ("repeat", repeat(run)),
        ("experiment", f"{run['experiment']['id']} {run['experiment']['name']}"),
        ("started", moment(run["started_at"])), ("ended", moment(run["ended_at"])), ("page", run["url"]),
        ("imported", "from another tool or lab" if run.get("imported") else ""), ("trace", clipped_text(run)),
    ]  # fmt: skip
    summary = run["summary"] or {}
    reasons = [(f"not valid: {one['code']}", one["message"]) for one in summary.get("reasons", [])]
    title = Text(f"run {run['id']}", style="bold")
    figures = figures_table(summary.get("metrics") or {})
    predicted = prediction_view(run.get("prediction"))
    held_up = bottleneck_view(run.get("bottleneck"))
    quality = quality_view(summary.get("quality"))
    return Group(title, facts_table([*facts, *reasons]), Text(), held_up, Text(), figures, Text(), quality, predicted)


def clipped_text(run: Json) -> str:
    """How much of a replayed trace the model was too short for; empty of any other load."""
    reports = [attempt.get("report") or {} for attempt in run.get("attempts") or []]
    trace = (reports[-1].get("client") or {}).get("trace") if reports else None
    if not isinstance(trace, dict):  # an imported report may hold anything there
        return ""
    requests, clipped = trace.get("requests"), trace.get("clipped_requests")
    lost = f"prompts by {trace.get('lost_input_tokens')} tokens in all, answers by {trace.get('lost_output_tokens')}"
    return f"{clipped} of {requests} requests clipped to what the model takes" + (f": {lost}" if clipped else "")


def figures_table(metrics: dict[str, Json]) -> RenderableType:
    """In the order in which the pages name figures; one without a name there comes last."""
    place = {name: index for index, name in enumerate(NAMES)}
    rows = [
        (name, digits(metric["value"]), metric["unit"], *(_percentile(metric, p) for p in ("p50", "p95", "p99")),
         metric["n"])
        for name, metric in sorted(metrics.items(), key=lambda one: place.get(one[0], len(place)))
        if metric["value"] is not None
    ]  # fmt: skip
    return table(("Figure", "Value", "Unit", "p50", "p95", "p99", "n"), rows, ("Value", "p50", "p95", "p99", "n"))


def _percentile(metric: Json, name: str) -> Text:
    """Dim where too few samples are behind it."""
    found = metric["percentiles"].get(name)
    if found is None:
        return Text("–")
    return Text(digits(found["value"]), style="" if found["enough"] else "dim")


def nodes_table(items: Iterable[Json]) -> Table:
    headings = ("Node", "Kind", "State", "Chips", "Run", "Project", "$ per h", "Models", "Last seen")
    rows = (
        (one["slug"], one["kind"], state_text(one["state"]), chips_text(one), one["current_run"],
         one["project"] or "every", one["usd_per_hour"], ", ".join(_model_name(model) for model in one["models"]),
         moment(one["last_seen_at"]))
        for one in items
    )  # fmt: skip
    return table(headings, rows, ("Run", "$ per h"))


def chips_text(node: Json) -> str | None:
    """Its chip; of a modelled node what it offers, as `8 × h100-sxm`."""
    pools = node.get("pools") or []
    return ", ".join(f"{pool['count']:,} × {line(pool['chip'])}" for pool in pools) or node["chip_name"]


def _model_name(model: Any) -> str:
    return str(model.get("name", "?")) if isinstance(model, dict) else str(model)
