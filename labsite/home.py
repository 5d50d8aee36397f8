"""The lab's home: the one directory that holds its state, and the secrets kept there.

Every secret lies in a file of its own, readable by its owner alone. Nothing here starts or stops anything.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any


def lab_home() -> Path:
    """LAB_HOME, else `.lab` in the working directory; absolute, and created if it is absent."""
    home = Path(os.environ.get("LAB_HOME") or ".lab").resolve()
    home.mkdir(parents=True, exist_ok=True)
    return home


def kept_secret(home: Path, name: str) -> str:
    """The secret of that name, made on first use. Two first users get the same one."""
    path = home / "secrets" / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        draft = _write_private_draft(path, secrets.token_urlsafe(32))
        try:
            os.link(draft, path)
        except FileExistsError:  # another process was first: its secret holds
            pass
        finally:
            draft.unlink()
    return path.read_text()


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON that only the owner can read; a reader sees the old file or the new one, never a part."""
    _write_private_draft(path, json.dumps(content, indent=2) + "\n").rename(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, or None where there is no file."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, expected an object")
    return content


def _write_private_draft(path: Path, text: str) -> Path:
    # mkstemp makes the file with mode 0600.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(name)
