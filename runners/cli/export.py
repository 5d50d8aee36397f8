"""`export`: the records of an experiment or a run, to a file or to standard output, as they arrive."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import IO, Annotated, Literal, cast

import httpx
import typer

from runners.cli.errors import WrongUse
from runners.cli.options import RunOption, ThingId
from runners.cli.session import JsonOption, Session, session_of, show

Kind = Literal["requests", "samples", "steps", "log", "runs", "bundle", "vllm", "aiperf"]
WHOLE: dict[str, str] = {"bundle": "bundle.zip", "vllm": "vllm.json", "aiperf": "aiperf.jsonl"}
"""Kinds that have one format: the file's name in the address."""
Form = Literal["jsonl", "csv", "parquet"]

KIND_HELP = (
    "Which records; runs: one row each with its figures; bundle: an experiment whole, for another lab; "
    "vllm, aiperf: with --run, its requests as those tools write them."
)


def export(
    context: typer.Context,
    number: ThingId,
    kind: Annotated[Kind, typer.Argument(help=KIND_HELP)] = "runs",
    form: Annotated[Form, typer.Option("--format", "-f", help="The file's format.")] = "csv",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="- is standard output; by default the lab names it."),
    ] = None,
    is_run: RunOption = False,
    attempt: Annotated[int | None, typer.Option(min=1, help="With --run: another attempt than the final one.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that there is.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Export the records of an experiment's ended runs, or with --run of one run.

    A file appears only once it is whole.
    """
    session = session_of(context)
    if is_run and kind == "runs":
        raise WrongUse("with --run say which records: requests, samples, steps or log")
    if attempt is not None and not is_run:
        raise WrongUse("--attempt goes with --run")
    if output == "-" and (as_json or (sys.stdout.isatty() and form == "parquet")):
        raise WrongUse("standard output can't take this: give -o FILE")
    path = _path(number, kind, form, is_run)
    form = cast(Form, WHOLE[kind].rpartition(".")[2]) if kind in WHOLE else form
    with session.client.stream(path, attempt=attempt) as response:
        _tell_left_out(session, response)
        if output == "-":
            _copy(response, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        target = Path(output or _name_of(response, f"export.{form}"))
        size = _save(response, target, force)
    result = {"file": str(target), "bytes": size, "runs": int(response.headers.get("Lab-Runs", 0)),
              "runs_left_out": int(response.headers.get("Lab-Runs-Left-Out", 0))}  # fmt: skip
    show(session, result, as_json, lambda: f"{target}: {size} bytes")


def _path(number: int, kind: Kind, form: Form, is_run: bool) -> str:
    """Raises WrongUse where the kind is of the other thing."""
    if (kind == "bundle" and is_run) or (kind in ("vllm", "aiperf") and not is_run):
        raise WrongUse(f"{kind} is of {'an experiment, not of a run' if is_run else 'a run: give --run'}")
    things = "runs" if is_run else "experiments"
    if kind in WHOLE:
        return f"/{things}/{number}/{WHOLE[kind]}"
    return f"/{things}/{number}/export/{kind}.{form}"


def _tell_left_out(session: Session, response: httpx.Response) -> None:
    left_out = response.headers.get("Lab-Runs-Left-Out", "0")
    if left_out != "0":
        session.notes.print(f"{left_out} runs have not ended and are left out", markup=False)


def _name_of(response: httpx.Response, otherwise: str) -> str:
    """The name that the lab gives the file, where it is one that can't lead elsewhere."""
    found = re.fullmatch(r'attachment; filename="([\w-]+\.\w+)"', response.headers.get("Content-Disposition", ""))
    return found[1] if found else otherwise


def _save(response: httpx.Response, target: Path, force: bool) -> int:
    if target.exists() and not force:
        raise WrongUse(f"{target} is there already: give another --output, or --force")
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as draft:
            try:
                size = _copy(response, draft)
                os.chmod(draft.name, 0o666 & ~_umask())
                Path(draft.name).rename(target)
            except BaseException:
                Path(draft.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise WrongUse(f"{target} can't be written: {error.strerror}") from error
    return size


def _copy(response: httpx.Response, file: IO[bytes]) -> int:
    size = 0
    for part in response.iter_bytes():
        size += file.write(part)
    file.flush()
    return size


def _umask() -> int:
    """The process's own, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
