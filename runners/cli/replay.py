"""`replay`: a run again, exactly as it was, and then beside its original."""

from __future__ import annotations

from typing import Annotated

import typer

from runners.cli.compare import METRICS, comparison_view
from runners.cli.errors import NOT_GOOD
from runners.cli.follow import follow
from runners.cli.options import TimeoutOption
from runners.cli.session import JsonOption, clean, session_of, show

ASPECTS = ("code_revision", "weights", "chip")


def replay(
    context: typer.Context,
    run: Annotated[int, typer.Argument(metavar="RUN", min=1, help="The run's number.")],
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="|".join(ASPECTS), help="What may differ from how it was; repeatable."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, then compare the two.")] = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a run again exactly: same spec, seed and node. Refused where code, weights or chip are others now."""
    session = session_of(context)
    made = session.client.post(f"/runs/{run}/replay", allow=",".join(allow) if allow else None)
    told = f"experiment {made['id']} replays run {run}: {clean(made['url'])}"
    if not wait:
        show(session, made, as_json, lambda: told)
        return
    session.notes.print(told, markup=False, soft_wrap=True)
    ended = follow(session.client, session.notes, made["id"], timeout, bars=False)
    original = session.client.get(f"/runs/{run}")["trial"]["id"]
    trial = ended["trials"][0]
    found = session.client.get("/compare", trials=f"{original},{trial['id']}")
    wanted = [name for name in METRICS if any(one["metrics"].get(name) for one in found["trials"])]
    show(session, found, as_json, lambda: comparison_view(found, wanted))
    if not all(one["valid"] for one in trial["runs"]):
        raise typer.Exit(NOT_GOOD)
