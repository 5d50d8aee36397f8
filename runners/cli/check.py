"""`check`: has an experiment become worse? For a build: its exit status says whether it may go on.

The verdicts are the lab's own; nothing is computed here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from runners.cli.client import Json
from runners.cli.errors import NOT_GOOD
from runners.cli.options import ThingId
from runners.cli.session import JsonOption, session_of, show
from runners.cli.tables import line, table
from runners.display import name_of, settings_label

STYLES = {"regressed": "red", "improved": "green", "inconclusive": "yellow"}


class FailOn(StrEnum):
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


FAILURES = {FailOn.REGRESSION: "regressed", FailOn.INCONCLUSIVE: "inconclusive"}


def check(
    context: typer.Context,
    experiment: ThingId,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="ID|last:N",
            help="An earlier experiment, or the last N runs of the same settings on the same node; "
            "left out: the experiment's own baseline.",
        ),
    ] = None,
    metrics: Annotated[list[str] | None, typer.Option("--metric", help="Judge this figure; repeatable.")] = None,
    effect: Annotated[
        float, typer.Option(min=0.0001, max=10, help="The relative change that must not go unseen.")
    ] = 0.05,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(help="End with status 1 on this; repeatable. Inconclusive: too little power to say."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether an experiment became worse than a baseline: verdicts with intervals, noise floor and power."""
    session = session_of(context)
    asked = {"baseline": baseline, "metrics": ",".join(metrics) if metrics else None, "effect": effect}
    found = session.client.get(f"/experiments/{experiment}/check", **asked)
    show(session, found, as_json, lambda: check_view(found))
    failing = {FAILURES[one] for one in fail_on or [FailOn.REGRESSION]}
    # an experiment in which nothing could be held against anything is as little a result as one finding that can't
    outcomes = {one["outcome"] for one in found["findings"]} or {found["outcome"]}
    if outcomes & failing:
        raise typer.Exit(NOT_GOOD)


def check_view(found: Json) -> RenderableType:
    rows = [
        (
            settings_label(one["settings"]),
            name_of(one["metric"]),
            Text(one["outcome"], style=STYLES.get(one["outcome"], "")),
            "–" if one["relative"] is None else f"{one['relative']:+.1%}",
            f"{one['n_before']} and {one['n_after']}",
            "–" if one["effect_size"] is None else f"{one['effect_size']:+.2f}",
            line(one["why"]),
        )
        for one in found["findings"]
    ]
    headings = ("Setting", "Figure", "Verdict", "Change", "Runs", "Cohen's d", "Why")
    title = Text(f"Against {line(found['baseline'])}: ", style="bold")
    title.append(found["outcome"], style=STYLES.get(found["outcome"], ""))
    return Group(title, table(headings, rows, ("Change", "Runs", "Cohen's d")))
