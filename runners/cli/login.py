"""`login` and `logout`: which lab the other commands speak to. The token is tried before it is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.account import Account, check_token, check_url, config_file, keep_account
from runners.cli.client import Client
from runners.cli.errors import WrongUse
from runners.cli.session import JsonOption, session_of, show

MOST_TOKEN_CHARACTERS = 1000


def login(
    context: typer.Context,
    url: Annotated[str | None, typer.Argument(help="The lab's address, such as https://lab.example.org.")] = None,
    home: Annotated[
        Path | None, typer.Option(help="A lab's home on this machine: take its address and token.", file_okay=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a lab's address and an API token for the other commands.

    The token is asked for, or read from standard input where that is no terminal.
    """
    session = session_of(context)
    account = _account_of_home(home) if home else Account(_address(url or session.url), _read_token())
    client = Client(account.url, account.token, patience_s=0)
    client.get("/experiments", limit=1)
    path = keep_account(account)
    show(session, {"url": account.url, "config": str(path)}, as_json, lambda: f"signed in at {account.url} ({path})")


def logout(context: typer.Context, as_json: JsonOption = False) -> None:
    """Forget the kept address and token. The token itself stays valid until it is revoked."""
    path = config_file()
    path.unlink(missing_ok=True)
    show(session_of(context), {"config": str(path)}, as_json, lambda: "signed out")


def _address(url: str | None) -> str:
    if url is None:
        raise WrongUse("say which lab: `inference-lab login URL`, or `inference-lab login --home DIR`")
    return check_url(url)


def _read_token() -> str:
    if sys.stdin.isatty():
        return check_token(typer.prompt("API token", hide_input=True, err=True).strip())
    return check_token(sys.stdin.read(MOST_TOKEN_CHARACTERS).strip())


def _account_of_home(home: Path) -> Account:
    """The credentials that `manage.py lab` keeps in its home. Raises WrongUse."""
    path = home / "credentials.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Account(check_url(kept["url"]), check_token(kept["token"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WrongUse(f"{path} holds no credentials of a lab: {type(error).__name__}: {error}") from error
