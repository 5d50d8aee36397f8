"""What a lab needs before its first page: chips, someone who can sign in, a project, and the two local nodes.

Every step can be repeated. The credentials are written before the database learns of them, so that a start
cut short in between is completed by the next one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labsite.home import read_json, write_private

PROJECT_NAME = "Default"


@dataclass(frozen=True)
class LocalNode:
    """A node on the lab's own machine."""

    name: str
    kind: str
    chip_id: str | None = None
    pools: tuple[dict[str, Any], ...] = ()

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


LOCAL_NODES = (
    LocalNode("local", "measured"),
    LocalNode("modelled", "modelled", "h100-sxm", ({"chip": "any", "count": 1024},)),
)
FORMER_NAMES = {"modelled": "h100-modelled"}


def local_nodes(home: Path) -> tuple[LocalNode, ...]:
    """The nodes of this machine; one that joined under the name that it had in an earlier version keeps it."""
    return tuple(_as_joined(node, home) for node in LOCAL_NODES)


def _as_joined(node: LocalNode, home: Path) -> LocalNode:
    former = replace(node, name=FORMER_NAMES.get(node.name, node.name))
    return former if former.has_joined(home) else node


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
