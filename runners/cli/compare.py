"""`compare`: the trials of one or more experiments side by side, with their intervals, each against the baseline.

The figures and the verdicts are the lab's own; nothing is computed here.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from runners.cli.client import Client, Json
from runners.cli.errors import WrongUse
from runners.cli.session import JsonOption, session_of, show
from runners.cli.tables import line, table
from runners.display import Scale, digits, name_of, scale_for, settings_label

METRICS = ("output_throughput", "ttft", "tpot", "e2el", "goodput")


def compare(
    context: typer.Context,
    experiments: Annotated[list[int] | None, typer.Argument(metavar="ID…", min=1, help="Experiments.")] = None,
    trials: Annotated[
        str | None, typer.Option(metavar="1,2,3", help="Trials of any experiments instead; the first is the baseline.")
    ] = None,
    metrics: Annotated[list[str] | None, typer.Option("--metric", help="Show this figure; repeatable.")] = None,
    prices: Annotated[
        list[str] | None, typer.Option("--usd-per-hour", metavar="NODE=USD", help="Assume this price; repeatable.")
    ] = None,
    power: Annotated[
        list[str] | None, typer.Option("--watts", metavar="NODE=W", help="Assume that it draws this; repeatable.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the trials of experiments: medians with 95 % intervals, and differences from the baseline."""
    if bool(experiments) == bool(trials):
        raise WrongUse("give experiments or --trials, one of them")
    session = session_of(context)
    found = _ask(session.client, experiments or [], trials, assumed_of(prices, power))
    unknown = sorted(set(metrics or ()) - set(found["metrics"]))
    if unknown:
        raise WrongUse(f"no figure is named {', '.join(unknown)}; there are: {', '.join(sorted(found['metrics']))}")
    wanted = metrics or [name for name in METRICS if any(trial["metrics"].get(name) for trial in found["trials"])]
    show(session, found, as_json, lambda: comparison_view(found, wanted))


def assumed_of(prices: list[str] | None, power: list[str] | None) -> dict[str, str]:
    """As the address of a comparison has them. Raises WrongUse."""
    assumed = {}
    for option, name, told in (("--usd-per-hour", "usd_per_hour", prices), ("--watts", "watts", power)):
        for one in told or ():
            node, equals, value = one.partition("=")
            if not (node and equals and value):
                raise WrongUse(f"{option} {one!r} can't be read; allowed: NODE=NUMBER")
            assumed[f"{name}[{node}]"] = value
    return assumed


def _ask(client: Client, experiments: list[int], trials: str | None, assumed: dict[str, str]) -> Json:
    """Of several experiments the first one's first trial is the baseline."""
    found: Json
    if trials is None and len(experiments) == 1:
        found = client.get("/compare", experiment=experiments[0], **assumed)
        return found
    if trials is None:
        each = [client.get(f"/experiments/{one}")["trials"] for one in dict.fromkeys(experiments)]
        trials = ",".join(str(trial["id"]) for some in each for trial in some)
    found = client.get("/compare", trials=trials, **assumed)
    return found


def comparison_view(comparison: Json, metrics: list[str]) -> RenderableType:
    parts: list[RenderableType] = [Text("Median of the valid runs [95 % interval]", style="bold")]
    parts.append(trials_table(comparison["trials"], metrics))
    shown = [one for one in comparison["differences"] if one["metric"] in metrics]
    if shown:
        units = {name: meaning["unit"] for name, meaning in comparison["metrics"].items()}
        parts += [Text(), Text("Against the baseline", style="bold"), differences_table(shown, metrics, units)]
    return Group(*parts)


def trials_table(trials: list[Json], metrics: list[str]) -> RenderableType:
    scales = {name: _scale(trials, name) for name in metrics}
    headings = [_heading(name, scales[name]) for name in metrics]
    several = len({trial["experiment_id"] for trial in trials}) > 1
    rows = [
        (
            _name(trial, several),
            *(_figure(trial["metrics"].get(name), scales[name]) for name in metrics),
            f"{sum(bool(run['valid']) for run in trial['runs'])} of {len(trial['runs'])}",
        )
        for trial in trials
    ]
    return table(("Setting", *headings, "Valid runs"), rows, (*headings, "Valid runs"))


def _name(trial: Json, several: bool) -> str:
    """A modelled trial always says so."""
    whose = f"{trial['experiment_id']}: " if several else ""
    assumed = any(metric.get("assumed") for metric in trial["metrics"].values())
    told = (("modelled", trial["modelled"]), ("baseline", trial["baseline"]), ("price or power assumed", assumed))
    marks = [mark for mark, holds in told if holds]
    return f"{whose}{settings_label(trial['settings'])}" + (f" ({', '.join(marks)})" if marks else "")


def _scale(trials: list[Json], name: str) -> Scale:
    found = [trial["metrics"][name] for trial in trials if trial["metrics"].get(name)]
    largest = max((abs(metric["median"]) for metric in found), default=None)
    return scale_for(found[0]["unit"] if found else "", largest)


def _heading(name: str, scale: Scale) -> str:
    return f"{name_of(name)}, {scale.unit}" if scale.unit else name_of(name)


def _figure(metric: Json | None, scale: Scale) -> str:
    if metric is None:
        return "–"
    text = digits(metric["median"] * scale.factor)
    few = f" (of {metric['few']} samples alone)" if metric.get("few") is not None else ""
    return f"{text} {_interval(metric, scale)}".strip() + few


def _interval(found: Json, scale: Scale) -> str:
    if found["low"] is None or found["high"] is None:
        return ""
    return f"[{digits(found['low'] * scale.factor)}, {digits(found['high'] * scale.factor)}]"


def differences_table(differences: list[Json], metrics: list[str], units: dict[str, str]) -> RenderableType:
    ordered = sorted(differences, key=lambda one: metrics.index(one["metric"]))
    rows = [
        (
            settings_label(one["settings"]),
            name_of(one["metric"]),
            "–" if one["relative"] is None else f"{one['relative']:+.1%}",
            _interval_text(one, units[one["metric"]]),
            _verdict(one),
            f"{line(one['method'])}, n = {one['n']}, {_floor(one)}",
        )
        for one in ordered
    ]
    headings = ("Setting", "Figure", "Change", "95 % interval", "Verdict", "How")
    return table(headings, rows, ("Change", "95 % interval"))


def _floor(difference: Json) -> str:
    floor = difference["noise_floor"]
    return "no noise floor" if floor is None else f"noise floor {floor:.1%}"


def _interval_text(difference: Json, unit: str) -> str:
    """The interval of the difference itself, in the figure's unit."""
    low, high = difference["low"], difference["high"]
    if low is None or high is None:
        return "–"
    scale = scale_for(unit, max(abs(low), abs(high)))
    return f"{digits(low * scale.factor)} … {digits(high * scale.factor)} {scale.unit}"


def _verdict(difference: Json) -> str:
    """What the lab calls it; a comparison of measured with modelled figures says so."""
    mixed = " (measured against modelled)" if difference["mixes_modelled"] else ""
    if difference.get("mixes_energy"):
        return f"not comparable: energy {difference['mixes_energy']}"
    mixed += " (imported against not)" if difference.get("mixes_imported") else ""
    if difference["is_difference"]:
        return f"a difference{mixed}"
    if difference["method"] == "uncalibrated":
        return f"can't be told: the modelled error is not known{mixed}"
    unsure = difference["low"] is None or difference["noise_floor"] is None
    return ("too few valid runs to say" if unsure else "within the noise") + mixed
