"""What a lab needs before its first page: chips, someone who can sign in, a project, and the two local nodes.

Every step can be repeated. The credentials are written before the database learns of them, so that a start
cut short in between is completed by the next one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from labsite.home import read_json, write_private

PROJECT_NAME = "Default"


@dataclass(frozen=True)
class LocalNode:
    """A node on the lab's own machine."""

    name: str
    kind: str
    chip_id: str | None = None

    def directory(self, home: Path) -> Path:
        return home / "nodes" / self.name

    def token_file(self, home: Path) -> Path:
        return self.directory(home) / "join-token"

    def has_joined(self, home: Path) -> bool:
        return (self.directory(home) / "node.json").exists()

    def point_at(self, home: Path, url: str) -> None:
        """Tells a joined node where the lab is now: its own lab may have been started on another port."""
        path = self.directory(home) / "node.json"
        kept = read_json(path)
        if kept is not None and kept["url"] != url:
            write_private(path, {**kept, "url": url})


LOCAL_NODES = (LocalNode("local", "measured"), LocalNode("h100-modelled", "modelled", "h100-sxm"))


@dataclass(frozen=True)
class Credentials:
    url: str
    username: str
    password: str
    token: str


def kept_credentials(home: Path, url: str) -> tuple[Credentials, bool]:
    """The admin's credentials with the current address, and whether they are new."""
    path = home / "credentials.json"
    kept = read_json(path)
    if kept is None:
        credentials = Credentials(url, "admin", secrets.token_urlsafe(15), f"lab_{secrets.token_urlsafe(32)}")
    else:
        credentials = Credentials(url, kept["username"], kept["password"], kept["token"])
    write_private(path, vars(credentials))
    return credentials, kept is None
