"""`import`: results that were not made here, a file of another tool or another lab's bundle, become an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ProjectOption
from runners.cli.session import JsonOption, clean, session_of, show
from runners.cli.upload import upload


def import_results(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="vLLM bench JSON, AIPerf JSON or JSONL, GuideLLM JSON, an llm-d report, InferenceX rows, or a bundle.",
        ),
    ],
    name: Annotated[str, typer.Option(help="The experiment's name; else it is the file's.")] = "",
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import results of another tool, or another lab's bundle, as an experiment."""
    session = session_of(context)
    made = upload(session.client, "/imports", file, file=file.name[:200], name=name or None, project=project)
    told = made["imported"]
    show(session, made, as_json, lambda: f"experiment {made['id']} from {clean(told['tool'])}: {clean(made['url'])}")
