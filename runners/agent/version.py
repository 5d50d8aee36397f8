"""Which version of this code runs: the package's, and the git revision where the source is a checkout."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path


def agent_version() -> str:
    """The installed version, and the revision of the source where that is a git checkout."""
    try:
        version = metadata.version("inference-lab")
    except metadata.PackageNotFoundError:
        version = "0"
    revision = code_revision()
    return f"{version}+{revision}" if revision else version


def code_revision() -> str | None:
    """The git revision of this source, with `-dirty` where tracked files were changed; None outside a checkout."""
    source = Path(__file__).resolve().parent.parent.parent
    try:
        done = subprocess.run(
            ["git", "-C", str(source), "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):  # no git here, or no checkout
        return None
    return done.stdout.strip() or None
