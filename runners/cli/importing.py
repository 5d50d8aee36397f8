"""`import`: results that were not made here, a file of another tool or another lab's bundle, become an experiment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.errors import WrongUse
from runners.cli.options import ProjectOption
from runners.cli.session import JsonOption, clean, session_of, show

PIECE_BYTES = 1 << 20
PATIENCE_S = 900.0
"""How long a large file may take to be stored."""


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
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
    except OSError as error:
        raise WrongUse(f"{file} can't be read: {error.strerror}") from error
    made = session.client.post(
        "/imports",
        content=_Pieces(file),
        headers={"Content-Type": "application/octet-stream", "Content-Length": str(size)},
        patience_s=PATIENCE_S,
        file=file.name[:200],
        name=name or None,
        project=project,
    )
    told = made["imported"]
    show(session, made, as_json, lambda: f"experiment {made['id']} from {clean(told['tool'])}: {clean(made['url'])}")


class _Pieces:
    """The file piece by piece, as often as it is gone through."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
