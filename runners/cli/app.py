"""The command line as a whole: which commands there are, and how a failure ends.

Every command takes `--json`. Exit statuses are in errors.py; a failure is told on stderr, in words or, with `--json`,
as one JSON object, and never as a traceback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, cast

import typer

from runners.cli.change import cancel, delete, edit, pause, restore, resume
from runners.cli.check import check
from runners.cli.compare import compare
from runners.cli.errors import FAULT, INTERRUPTED, CommandFailed, WrongUse
from runners.cli.export import export
from runners.cli.follow import wait, watch
from runners.cli.importing import import_results
from runners.cli.ladder import ladder
from runners.cli.login import login, logout
from runners.cli.look import list_experiments, list_runs, nodes, show_one
from runners.cli.models import models_app
from runners.cli.replay import replay
from runners.cli.session import Session, clean
from runners.cli.submit import clone, submit, validate
from runners.cli.traces import traces_app

PROGRAM = "inference-lab"
HELP = """The inference lab from a terminal.

Exit status: 0 done · 1 a result is not good · 2 wrong use · 3 refused by the lab · 4 the lab can't be reached ·
5 the time limit passed · 70 a fault of this program · 130 interrupted.
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(asked: bool) -> None:
    if asked:
        try:
            typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        except PackageNotFoundError:
            typer.echo(f"{PROGRAM} (run from its source)")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Another lab than the kept one; with LAB_TOKEN.")
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = Session(url)


COMMANDS: dict[str, Callable[..., None]] = {
    "login": login,
    "logout": logout,
    "submit": submit,
    "validate": validate,
    "watch": watch,
    "wait": wait,
    "list": list_experiments,
    "runs": list_runs,
    "show": show_one,
    "compare": compare,
    "check": check,
    "ladder": ladder,
    "export": export,
    "import": import_results,
    "replay": replay,
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "clone": clone,
    "edit": edit,
    "delete": delete,
    "restore": restore,
    "nodes": nodes,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(models_app, name="models")
app.add_typer(traces_app, name="traces")


# Of the faults of a command line typer exports this kind alone; the others share its base.
FAULTY_LINE = cast(type[Exception], typer.BadParameter.__bases__[0])


def main(arguments: list[str] | None = None) -> int:
    """The exit status. `arguments` None: those of the process."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return int(app(args=given, prog_name=PROGRAM, standalone_mode=False) or 0)
    except FAULTY_LINE as error:
        return _tell_faulty_line(cast(typer.BadParameter, error), "--json" in given)
    except typer.Abort:
        return INTERRUPTED
    except CommandFailed as failure:
        text = json.dumps(failure.as_dict()) if "--json" in given else f"error: {clean(failure)}"
        print(text, file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        if os.environ.get("LAB_DEBUG") == "1":
            raise
        # Ours, or an answer of another version's lab: in either case no traceback for a person at a terminal.
        told = f"{type(error).__name__}: {clean(error)}; LAB_DEBUG=1 shows where"
        print(f"error: {PROGRAM} does not understand what happened: {told}", file=sys.stderr)
        return FAULT


def _tell_faulty_line(error: typer.BadParameter, as_json: bool) -> int:
    """An unknown command or option, a value that is none: with the command's usage, or as JSON."""
    if as_json:
        print(json.dumps(WrongUse(error.format_message()).as_dict()), file=sys.stderr)
    else:
        error.show()
    return error.exit_code
