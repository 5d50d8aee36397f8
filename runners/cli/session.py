"""What every command shares: the client of the chosen lab, and the two ways of showing a result.

With `--json` the result is the only thing on stdout, as JSON; all else goes to stderr. Without it, text for a person,
from which control characters that a name might hold are taken out.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from runners.cli.account import find_account
from runners.cli.client import Client

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]

# Without a terminal the width is unknown; lines of tables should not be folded for a program that reads them.
PLAIN_WIDTH = 160


@dataclass
class Session:
    """One invocation. `url` is the root option of that name, where it was given."""

    url: str | None = None

    @cached_property
    def client(self) -> Client:
        account = find_account(self.url)
        return Client(account.url, account.token, tell=lambda text: self.notes.print(text, style="dim", markup=False))

    @cached_property
    def console(self) -> Console:
        """stdout, for a person."""
        return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)

    @cached_property
    def notes(self) -> Console:
        """stderr: progress, hints, errors."""
        return Console(stderr=True, width=None if sys.stderr.isatty() else PLAIN_WIDTH, highlight=False)


def session_of(context: typer.Context) -> Session:
    found = context.find_object(Session)
    assert found is not None, "the root command sets it"
    return found


def show(session: Session, value: Any, as_json: bool, render: Callable[[], Any]) -> None:
    """`value` as JSON, or what `render` gives (text or a rich renderable) for a person."""
    if as_json:
        print_json(value)
        return
    shown = render()
    session.console.print(Text(clean(shown)) if isinstance(shown, str) else shown, soft_wrap=isinstance(shown, str))


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=not _speaks_utf8()) + "\n")


def clean(text: object) -> str:
    """Without control and direction characters, so that a name can't steer the terminal; line breaks stay."""
    return "".join(" " if _steers(one) else one for one in str(text))


def _steers(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _speaks_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
