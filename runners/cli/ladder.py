"""`ladder`: what each technique of a ladder gains over all before it, and what they gain together.

The figures and the verdicts are the lab's own; nothing is computed here.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from runners.cli.client import Json
from runners.cli.options import ThingId
from runners.cli.session import JsonOption, session_of, show
from runners.cli.tables import line, table
from runners.display import Scale, digits, name_of, scale_for, settings_label


def ladder(
    context: typer.Context,
    experiment: ThingId,
    metric: Annotated[str, typer.Option(help="The figure to show.")] = "output_throughput",
    as_json: JsonOption = False,
) -> None:
    """Show what each step of a ladder gains, with its interval and noise floor, and the total."""
    session = session_of(context)
    found = session.client.get(f"/experiments/{experiment}/ladder", metric=metric)
    show(session, found, as_json, lambda: ladder_view(found))


def ladder_view(found: Json) -> RenderableType:
    means = [rung["mean"] for one in found["ladders"] for rung in one["rungs"] if rung["mean"] is not None]
    scale = scale_for(found["unit"], max(means, default=None))
    parts: list[RenderableType] = []
    for one in found["ladders"]:
        modelled = ", modelled" if any(rung["modelled"] for rung in one["rungs"]) else ""
        title = settings_label(one["settings"]) if one["settings"] else f"Experiment {found['experiment']}"
        parts += [Text(f"{title}: {name_of(found['metric'])}{modelled}", style="bold"), _rungs(one, scale), Text()]
    return Group(*parts[:-1])


def _rungs(one: Json, scale: Scale) -> RenderableType:
    rows = [(line(rung["label"]), _mean(rung, scale), *_change(rung["gain"], scale)) for rung in one["rungs"]]
    if one["total"]:
        rows.append(("all together", "", *_change(one["total"], scale)))
    value, gain = (f"{name}, {scale.unit}" if scale.unit else name for name in ("Mean", "Gain"))
    headings = ("Step", value, gain, "Relative", "Interval", "Noise floor", "n", "Verdict")
    return table(headings, rows, headings[1:7])


def _mean(rung: Json, scale: Scale) -> str:
    return "–" if rung["mean"] is None else digits(rung["mean"] * scale.factor)


def _change(gain: Json | None, scale: Scale) -> tuple[str, ...]:
    if gain is None:
        return ("", "", "", "", "", "")
    low, high = gain["low"], gain["high"]
    return (
        digits(gain["difference"] * scale.factor),
        "–" if gain["relative"] is None else f"{gain['relative']:+.1%}",
        "–" if low is None or high is None else f"[{digits(low * scale.factor)}, {digits(high * scale.factor)}]",
        "–" if gain["noise_floor"] is None else f"{gain['noise_floor']:.1%}",
        str(gain["n"]),
        line(gain["verdict"]),
    )
