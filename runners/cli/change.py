"""`cancel`, `pause`, `resume`, `edit`, `delete` and `restore`: what a person does to an experiment that there is."""

from __future__ import annotations

from typing import Annotated

import typer

from runners.cli.client import Json
from runners.cli.errors import WrongUse
from runners.cli.options import ExperimentId, RunOption, ThingId
from runners.cli.session import JsonOption, clean, session_of, show


def cancel(context: typer.Context, number: ThingId, is_run: RunOption = False, as_json: JsonOption = False) -> None:
    """Cancel what has not ended of an experiment, or one run."""
    _act(context, "runs" if is_run else "experiments", number, "cancel", as_json)


def pause(context: typer.Context, experiment: ExperimentId, as_json: JsonOption = False) -> None:
    """Start none of its queued runs until it is resumed; runs under way go on."""
    _act(context, "experiments", experiment, "pause", as_json)


def resume(context: typer.Context, experiment: ExperimentId, as_json: JsonOption = False) -> None:
    """Let a paused experiment's queued runs start again."""
    _act(context, "experiments", experiment, "resume", as_json)


def restore(context: typer.Context, experiment: ExperimentId, as_json: JsonOption = False) -> None:
    """Restore an experiment that was deleted within 30 days."""
    _act(context, "experiments", experiment, "restore", as_json)


def delete(context: typer.Context, experiment: ExperimentId, as_json: JsonOption = False) -> None:
    """Delete an experiment; for 30 days `restore` brings it back."""
    session = session_of(context)
    session.client.delete(f"/experiments/{experiment}")
    text = f"experiment {experiment} is deleted; for 30 days `inference-lab restore {experiment}` brings it back"
    show(session, {"id": experiment, "deleted": True}, as_json, lambda: text)


def edit(
    context: typer.Context,
    experiment: ExperimentId,
    name: Annotated[str | None, typer.Option(help="Its new name.")] = None,
    question: Annotated[str | None, typer.Option(help="The question it answers.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="In place of its tags; repeatable.")] = None,
    priority: Annotated[
        int | None, typer.Option(help="-100 to 100: queued runs of a higher priority go first.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Change an experiment's name, question, tags or priority."""
    given = {"name": name, "question": question, "tags": tags or None, "priority": priority}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise WrongUse("say what to change: --name, --question, --tag or --priority")
    session = session_of(context)
    changed = session.client.patch(f"/experiments/{experiment}", changes)
    show(session, changed, as_json, lambda: _state_text("experiment", changed))


def _act(context: typer.Context, kind: str, number: int, action: str, as_json: bool) -> None:
    session = session_of(context)
    # Each of these says what is to be, not what is to change: asking twice does what asking once does.
    changed = session.client.post(f"/{kind}/{number}/{action}", repeat=True)
    show(session, changed, as_json, lambda: _state_text(kind.removesuffix("s"), changed))


def _state_text(kind: str, thing: Json) -> str:
    name = f" ({clean(thing['name'])})" if "name" in thing else ""
    return f"{kind} {thing['id']}{name} is {thing['state']}"
