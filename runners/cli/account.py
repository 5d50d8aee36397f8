"""Which lab a command speaks to, and as whom: LAB_URL and LAB_TOKEN, else what `login` has kept.

The token never stands on a command line, where every process of the machine could read it.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from runners.cli.errors import WrongUse


@dataclass(frozen=True)
class Account:
    url: str
    token: str


def config_file() -> Path:
    """`$XDG_CONFIG_HOME/inference-lab/config.toml`, by default below `~/.config`."""
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "inference-lab" / "config.toml"


def find_account(url: str | None = None) -> Account:
    """LAB_URL and LAB_TOKEN first, each by itself; then the file. `url` stands above both.

    A token that is kept for one lab is not sent to another. Raises WrongUse.
    """
    kept = read_account()
    address = url or os.environ.get("LAB_URL") or (kept.url if kept else None)
    token = os.environ.get("LAB_TOKEN")
    if address is None:
        raise WrongUse("no lab is known: run `inference-lab login URL`, or set LAB_URL and LAB_TOKEN")
    address = check_url(address)
    if not token and kept and kept.url == address:
        token = kept.token
    if not token:
        raise WrongUse(f"no token for {address}: run `inference-lab login {address}`, or set LAB_TOKEN")
    return Account(address, check_token(token))


def read_account() -> Account | None:
    path = config_file()
    try:
        kept = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WrongUse(f"{path} can't be read: {error}") from error
    url, token = kept.get("url"), kept.get("token")
    if not isinstance(url, str) or not isinstance(token, str):
        raise WrongUse(f"{path} holds no url and token: run `inference-lab login` again")
    return Account(check_url(url), token)


def keep_account(account: Account) -> Path:
    """Writes the file anew, readable by its owner alone; a reader sees the old one or the new one."""
    path = config_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file with mode 0600
    descriptor, draft = tempfile.mkstemp(prefix=".config.", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f'url = "{account.url}"\ntoken = "{account.token}"\n')
    Path(draft).rename(path)
    return path


def check_url(text: str) -> str:
    """The address without a slash at its end. Raises WrongUse."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "\\<>')
    if not usable or not plain or parts.query or parts.fragment or parts.username:
        raise WrongUse(f"{text!r} is no lab's address: expected something like https://lab.example.org")
    return text.rstrip("/")


def check_token(text: str) -> str:
    """Raises WrongUse where it could not stand in a header, without showing it."""
    if not text:
        raise WrongUse("no token was given: the account page makes one; type it when asked, or send it on stdin")
    if not text.isascii() or not text.isprintable() or set(text) & set(' "\\'):
        raise WrongUse("the token holds characters that no token of a lab has")
    return text
