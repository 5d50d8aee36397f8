"""`submit`, `validate` and `clone`: a document goes to the lab, and with --wait or --watch its end is awaited."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.client import Json
from runners.cli.errors import NOT_GOOD, WrongUse, fault_text
from runners.cli.follow import finish, follow
from runners.cli.options import (
    ExperimentId,
    KeyOption,
    ProjectOption,
    SetOption,
    TimeoutOption,
    read_changes,
)
from runners.cli.session import JsonOption, Session, clean, session_of, show
from runners.display import duration, settings_label

MOST_BYTES = 2 * 1024 * 1024

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A YAML or JSON document; - is standard input.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait for its end; exit status 1 unless every run is valid.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="As --wait, with live bars.")]


def submit(
    context: typer.Context,
    file: FileArgument,
    changes: SetOption = None,
    project: ProjectOption = None,
    idempotency_key: KeyOption = None,
    wait: WaitOption = False,
    watch: WatchOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit an experiment."""
    session = session_of(context)
    content, kind = read_document(file, changes)
    headers = kind | _key(idempotency_key)
    made = session.client.post("/experiments", content=content, headers=headers, repeat=True, project=project)
    _after(session, made, wait, watch, timeout, as_json)


def validate(
    context: typer.Context,
    file: FileArgument,
    changes: SetOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a document without submitting it. Exit status 1 where it would be refused."""
    session = session_of(context)
    content, kind = read_document(file, changes)
    found = session.client.post("/experiments/validate", content=content, headers=kind, repeat=True, project=project)
    show(session, found, as_json, lambda: validation_text(found))
    if not found["valid"]:
        raise typer.Exit(NOT_GOOD)


def clone(
    context: typer.Context,
    experiment: ExperimentId,
    changes: SetOption = None,
    name: Annotated[str | None, typer.Option(help="The new experiment's name.")] = None,
    idempotency_key: KeyOption = None,
    wait: WaitOption = False,
    watch: WatchOption = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit an experiment again, changed or not, as a new one."""
    session = session_of(context)
    body = {"name": name, "set": read_changes(changes) or None}
    given = {key: value for key, value in body.items() if value is not None}
    made = session.client.post(f"/experiments/{experiment}/clone", given, repeat=True, headers=_key(idempotency_key))
    _after(session, made, wait, watch, timeout, as_json)


def _key(given: str | None) -> dict[str, str]:
    """Without a key of the user's a new one, so that a submission whose answer was lost can be sent again."""
    key = given or str(uuid.uuid4())
    if not key.isascii() or not key.isprintable() or len(key) > 200:
        raise WrongUse("--idempotency-key: expected up to 200 printable ASCII characters")
    return {"Idempotency-Key": key}


def _after(session: Session, experiment: Json, wait: bool, watch: bool, timeout: float | None, as_json: bool) -> None:
    if not wait and not watch:
        show(session, experiment, as_json, lambda: f"experiment {experiment['id']}: {clean(experiment['url'])}")
        return
    session.notes.print(f"experiment {experiment['id']}: {clean(experiment['url'])}", markup=False, soft_wrap=True)
    finish(session, follow(session.client, session.notes, experiment["id"], timeout, bars=watch), as_json)


def read_document(file: str, changes: list[str] | None) -> tuple[bytes, dict[str, str]]:
    """The body and its type: the document as it was written or, with changes, as JSON. Raises WrongUse."""
    text = _read(file)
    if not changes:
        return text, {"Content-Type": "application/yaml"}
    return _changed(text, changes), {"Content-Type": "application/json"}


def _changed(text: bytes, changes: list[str]) -> bytes:
    # Only who sets something waits for the document's own parser and its types.
    from runners.changes import apply_changes  # noqa: PLC0415
    from runners.document import SpecError, parse_text  # noqa: PLC0415

    try:
        document = apply_changes(parse_text(text.decode("utf-8-sig")), read_changes(changes))
    except SpecError as error:
        faults = [f"{one.field or 'document'}: {fault_text(one.as_dict())}" for one in error.errors]
        raise WrongUse("\n".join(faults)) from error
    except UnicodeDecodeError as error:
        raise WrongUse(f"the document is not UTF-8: {error}") from error
    return json.dumps(document, default=str).encode()


def _read(file: str) -> bytes:
    try:
        if file == "-":
            text = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise WrongUse(f"{file} can't be read: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise WrongUse(f"{file} is larger than {MOST_BYTES} bytes: that is no experiment document")
    return text


def validation_text(found: Json) -> str:
    lines = [f"{one['field'] or 'document'}: {fault_text(one)}" for one in found["errors"]]
    lines += [f"warning: {one['field']}: {one['message']}" for one in found.get("warnings") or []]
    if not found["valid"]:
        return "\n".join(["refused", *lines])
    lines += [f"trial {trial['index']}: {settings_label(trial['settings'])}" for trial in found["trials"]]
    estimate = found.get("estimate")
    time = f", about {duration(estimate['seconds'])}" if estimate else ""
    more = f", at most {found['runs_at_most']}" if found.get("runs_at_most", 0) > found["runs"] else ""
    return "\n".join([f"valid: {len(found['trials'])} trials, {found['runs']} runs{more}{time}", *lines])
