"""A file system of a few megabytes that a test may fill. Mounting one takes rights that not every machine gives."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_BYTES = 4 << 20


@contextmanager
def mounted(place: Path) -> Iterator[Path]:
    """Raises CalledProcessError where it can't be mounted, OSError where there is no `mount`."""
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs"]
    subprocess.run(["mount", *options, str(place)], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder)):
                return True
        except (subprocess.CalledProcessError, OSError):
            return False


def fill(place: Path) -> Path:
    """Takes all the room that is left; the file that has it."""
    ballast = place / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while file.write(b"x" * size):
                    continue
            except OSError:
                continue
    return ballast
