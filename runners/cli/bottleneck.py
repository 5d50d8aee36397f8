"""What held a run up, as the lab argues it; nothing is judged here."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from runners.cli.client import Json


def bottleneck_view(found: Json | None) -> RenderableType:
    """The bottleneck, each cause with its argument, and what to compare next; nothing for a run without a verdict."""
    if not found:
        return Text()
    modelled = " (modelled)" if found.get("modelled") else ""
    title = (
        f"Held up by: {found['name']}{modelled}" if found["kind"] else f"No bottleneck{modelled}: {found['why_not']}"
    )
    lines = [Text(title, style="bold")]
    lines += [
        Text(f"  {cause['name']}, {cause['score']:.0%} of the requests’ time: {cause['says']}")
        for cause in found["causes"]
    ]
    for path, values in (found.get("suggests") or {}).items():
        lines.append(Text(f"  to find out, compare {path}: {', '.join(map(str, values))}", style="dim"))
    return Group(*lines)
