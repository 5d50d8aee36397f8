"""`traces`: recorded traffic that experiments may replay: registering a file, listing, showing, removing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from runners.cli.client import Json
from runners.cli.errors import WrongUse
from runners.cli.options import AllOption, LimitOption, ProjectOption
from runners.cli.session import JsonOption, Session, clean, session_of, show
from runners.cli.tables import facts_table, moment, table
from runners.cli.upload import upload
from runners.display import duration, size

traces_app = typer.Typer(
    help="Recorded traffic that experiments may replay.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The trace's name.")]


@traces_app.command("list")
def list_traces(
    context: typer.Context,
    search: Annotated[str | None, typer.Option(help="A part of the name.")] = None,
    project: ProjectOption = None,
    limit: LimitOption = 200,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the traces of your projects."""
    session = session_of(context)
    items = list(session.client.items("/traces", None if everything else limit, search=search, project=project))
    show(session, items, as_json, lambda: traces_table(items))


@traces_app.command("show")
def show_trace(context: typer.Context, name: Name, project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Show a trace: how long it takes, its lengths, how much of it is shared."""
    session = session_of(context)
    found = session.client.get(f"/traces/{_id_of(session, name, project)}")
    show(session, found, as_json, lambda: trace_view(found))


@traces_app.command("add")
def add(
    context: typer.Context,
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Mooncake, Azure, BurstGPT, Bailian, ShareGPT, custom.")],
    format_name: Annotated[
        str | None, typer.Option("--format", help="Its format; left out, it is told from the first line.")
    ] = None,
    block_tokens: Annotated[
        int | None, typer.Option(min=1, help="Custom format: the tokens that a prefix id stands for (512).")
    ] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Leave out lines that can't be read, and count them.")
    ] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register a file of recorded traffic. The same rows again under the same name give the same trace."""
    session = session_of(context)
    made = upload(
        session.client,
        "/traces",
        file,
        name=name,
        format=format_name,
        block_tokens=block_tokens,
        skip_bad_lines=skip_bad_lines or None,
        project=project,
    )
    left_out = f"; {made['skipped']:,} lines could not be read" if made["skipped"] else ""
    show(session, made, as_json, lambda: f"registered {clean(made['name'])}: {made['rows']:,} requests{left_out}")


@traces_app.command("remove")
def remove(context: typer.Context, name: Name, project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Remove a trace that no experiment names."""
    session = session_of(context)
    session.client.delete(f"/traces/{_id_of(session, name, project)}")
    show(session, {"name": name, "removed": True}, as_json, lambda: f"{name} is removed")


def _id_of(session: Session, name: str, project: str | None) -> int:
    """The number of the one trace of that name. Raises WrongUse where there is none, or one in several projects."""
    found = list(session.client.items("/traces", 10, name=name, project=project))
    if len(found) != 1:
        where = ", ".join(one["project"] for one in found)
        raise WrongUse(f"several projects have a trace {name!r}: {where}; say --project" if found else
                       f"there is no trace {name!r}, or none that is yours to see")  # fmt: skip
    return int(found[0]["id"])


def traces_table(items: list[Json]) -> Any:
    rows = (
        (one["name"], one["project"], one["format"], f"{one['rows']:,}",
         duration(one["duration_s"]) if one["request_rate"] else "no times",
         f"{one['request_rate']:.3g}" if one["request_rate"] else "",
         "" if one["sharing_rate"] is None else f"{one['sharing_rate']:.0%}")
        for one in items
    )  # fmt: skip
    headings = ("Name", "Project", "Format", "Requests", "Spans", "Per s", "Shared")
    return table(headings, rows, ("Requests", "Per s", "Shared"))


def trace_view(trace: Json) -> Any:
    def lengths(name: str) -> str:
        of = trace["summary"][name]
        return f"p50 {of['p50']:,.0f}, p90 {of['p90']:,.0f}, p99 {of['p99']:,.0f}, at most {of['max']:,.0f} tokens"

    shared = (
        None if trace["sharing_rate"] is None else f"{trace['sharing_rate']:.1%} of the prompts' blocks came before"
    )
    return facts_table([
        ("name", trace["name"]), ("project", trace["project"]), ("format", trace["format"]),
        ("requests", f"{trace['rows']:,}"), ("left out", f"{trace['skipped']:,} lines" if trace["skipped"] else None),
        ("spans", duration(trace["duration_s"]) if trace["request_rate"] else "no times"),
        ("prompts", lengths("input_tokens")), ("answers", lengths("output_tokens")), ("shared", shared),
        ("size", size(trace["bytes"])), ("sha256", trace["sha256"]), ("experiments", trace["experiments"]),
        ("registered", moment(trace["created_at"])), ("by", trace["created_by"]),
    ])  # fmt: skip
