"""Which code this is: the revision that every run is frozen with."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def code_revision() -> str:
    """`<commit>` or `<commit>-dirty` of the checkout, else the installed package's version, else `unknown`."""
    commit = _git("rev-parse", "HEAD") if (ROOT / ".git").exists() else None
    if commit:
        return f"{commit}-dirty" if _git("status", "--porcelain", "--untracked-files=no") else commit
    try:
        return f"inference-lab {version('inference-lab')}"
    except PackageNotFoundError:
        return "unknown"


def _git(*arguments: str) -> str | None:
    """What git says; None where there is no git or it refuses (a checkout that belongs to another user)."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
