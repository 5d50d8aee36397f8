"""`list`, `runs`, `show` and `nodes`: what there is."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from runners.cli.client import Json
from runners.cli.options import AllOption, LimitOption, RunOption, ThingId
from runners.cli.searches import whole_view
from runners.cli.session import JsonOption, Session, session_of, show
from runners.cli.tables import experiments_table, nodes_table, run_view, runs_table

Search = Annotated[str | None, typer.Option(help="Words of the experiment's name, question or tags.")]
State = Annotated[str | None, typer.Option(help="Only those in this state.")]
Sort = Annotated[str, typer.Option(help="A field; with - before it, the greatest first.")]
Flag = bool | None


def list_experiments(
    context: typer.Context,
    search: Search = None,
    state: State = None,
    tag: Annotated[str | None, typer.Option(help="Has this tag.")] = None,
    owner: Annotated[str | None, typer.Option(help="User name.")] = None,
    project: Annotated[str | None, typer.Option(help="Slug.")] = None,
    model: Annotated[str | None, typer.Option(help="Names this model.")] = None,
    priority: Annotated[int | None, typer.Option(help="Has this priority.")] = None,
    created_after: Annotated[str | None, typer.Option(metavar="TIME", help="ISO 8601 with a zone.")] = None,
    created_before: Annotated[str | None, typer.Option(metavar="TIME", help="ISO 8601 with a zone.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Those deleted within 30 days.")] = False,
    sort: Sort = "-created_at",
    limit: LimitOption = 50,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """List experiments, the newest first."""
    filters: Json = {
        "search": search, "state": state, "tag": tag, "owner": owner, "project": project, "model": model,
        "priority": priority, "created_after": created_after, "created_before": created_before,
        "deleted": deleted or None, "sort": sort,
    }  # fmt: skip
    _list(session_of(context), "/experiments", filters, None if everything else limit, as_json, experiments_table)


def list_runs(
    context: typer.Context,
    experiment: Annotated[int | None, typer.Option(min=1, help="Of this experiment.")] = None,
    search: Search = None,
    state: State = None,
    valid: Annotated[Flag, typer.Option("--valid/--invalid", help="Only those, of the ended ones.")] = None,
    node: Annotated[str | None, typer.Option(help="Slug of the node that had it last.")] = None,
    model: Annotated[str | None, typer.Option(help="Of this model.")] = None,
    modelled: Annotated[Flag, typer.Option("--modelled/--measured", help="On such a node.")] = None,
    sort: Sort = "-created_at",
    limit: LimitOption = 50,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """List runs, the newest first."""
    filters: Json = {
        "experiment": experiment, "search": search, "state": state, "valid": valid, "node": node, "model": model,
        "modelled": modelled, "sort": sort,
    }  # fmt: skip
    _list(session_of(context), "/runs", filters, None if everything else limit, as_json, runs_table)


def show_one(context: typer.Context, number: ThingId, is_run: RunOption = False, as_json: JsonOption = False) -> None:
    """Show an experiment with its runs, or a run with its figures."""
    session = session_of(context)
    found = session.client.get(f"/{'runs' if is_run else 'experiments'}/{number}")
    show(session, found, as_json, lambda: run_view(found) if is_run else whole_view(found))


def nodes(
    context: typer.Context,
    search: Annotated[str | None, typer.Option(help="Part of its name.")] = None,
    state: State = None,
    kind: Annotated[str | None, typer.Option(help="measured or modelled.")] = None,
    limit: LimitOption = 200,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the nodes of your projects: what they are, what they run, which models they hold."""
    filters: Json = {"search": search, "state": state, "kind": kind}
    _list(session_of(context), "/nodes", filters, None if everything else limit, as_json, nodes_table)


def _list(session: Session, path: str, filters: Json, most: int | None, as_json: bool, table: Any) -> None:
    found = list(session.client.items(path, most, **filters))
    show(session, found, as_json, lambda: table(found) if found else "none")
