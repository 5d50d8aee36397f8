"""What a run measured of its answers that its figures alone don't say: against what, how sure, and what is missing."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from runners.cli.client import Json
from runners.cli.session import clean
from runners.display import digits, name_of


def quality_view(found: Json | None) -> RenderableType:
    """The reference, each figure with its interval, the tasks; nothing for a run whose quality was not asked for."""
    if not found:
        return Text()
    lines = [Text("Quality", style="bold")]
    if reference := found.get("reference"):
        kind = f", which is {clean(reference['label'])} already" if reference.get("label") else ""
        lines.append(Text(f"  against its own {clean(reference['weights'])}{kind}"))
    for part, note in (("text", ""), ("rescaled", ", off the grid")):
        lines += [Text(f"  {name_of(name)}{note}: {_figure(one)}") for name, one in _figures(found.get(part)).items()]
    for task, one in found.get("tasks", {}).items():
        right = f"{one['correct']} of {one['asked']} right"
        lines.append(Text(f"  {clean(task).replace('_', ' ')}: {right}, {_figure(one['accuracy'])}"))
    lines += [Text(f"  not measured: {clean(why)}", style="dim") for why in found.get("not_measured", ())]
    if found.get("cached"):
        lines.append(Text("  the text's figures were kept from an equal run on this node", style="dim"))
    return Group(*lines)


def _figures(part: Json | None) -> dict[str, Json]:
    return {name: one for name, one in (part or {}).items() if isinstance(one, dict)}


def _figure(one: Json) -> str:
    if one.get("low") is None:
        return digits(one["value"])
    return f"{digits(one['value'])} ({digits(one['low'])} – {digits(one['high'])})"
