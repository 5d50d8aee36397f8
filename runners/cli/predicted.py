"""What the cost model says of a measured run, for a terminal: figures that are modelled, and say so."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from runners.cli.client import Json
from runners.cli.session import clean
from runners.display import name_of, shown, with_sign


def prediction_view(prediction: Json | None) -> RenderableType:
    """Each figure with its band and the residual; nothing where the run has no prediction."""
    if prediction is None:
        return Text()
    if prediction["why_not"]:
        return Text(clean(f"No prediction of the cost model: {prediction['why_not']}"), style="dim")
    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (f"Modelled ({prediction['state']})", "Figure", "90 % band", "Measured", "Residual"):
        made.add_column(heading, justify="left" if heading.startswith("Modelled") else "right", overflow="fold")
    for name, one in prediction["metrics"].items():
        unit = one["unit"]
        band = "error not known" if one["low"] is None else f"{shown(one['low'], unit)} – {shown(one['high'], unit)}"
        residual = "–" if one["residual"] is None else f"{with_sign(100 * one['residual'])} %"
        cells = (name_of(name), shown(one["predicted"], unit), band, shown(one["measured"], unit), residual)
        made.add_row(*(Text(clean(cell)) for cell in cells))
    return Group(made, Text(clean(f"From {prediction['basis']}."), style="dim"))
