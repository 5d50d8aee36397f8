"""A model from the Hugging Face hub, through its own client in a process of its own (`runners.models.hub_process`).

The client's settings apply: HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, proxies. Its timeouts are shorter here than its own,
so that a hub that can't be reached is known within seconds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners.models.checked import Progress
from runners.models.download import Downloader
from runners.models.errors import FetchFailed, SourceRefused

SETTINGS = {
    "HF_HUB_ETAG_TIMEOUT": "10",
    "HF_HUB_DOWNLOAD_TIMEOUT": "30",
    # Plain HTTP, whose growth on the disk can be seen and which any proxy and mirror speaks.
    "HF_HUB_DISABLE_XET": "1",
}
QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
RESULT, REQUEST, FILES = "result.json", "request.json", "files"


def download_files(
    repo: str, revision: str, names: Sequence[str], staging: Path, total_bytes: int, progress: Progress
) -> Path:
    """The folder below `staging` that holds those files. Raises FetchFailed, SourceRefused, OSError, and what
    `progress` raises."""
    request = {"act": "download", "repo": repo, "revision": revision, "names": list(names)}
    _ask(request, staging, total_bytes, progress)
    return staging / FILES


def resolve(repo: str, revision: str | None, staging: Path, progress: Progress) -> tuple[str, dict[str, int]]:
    """The commit that a branch, tag or commit stands for, and its files with their sizes. Raises as above."""
    answer = _ask({"act": "resolve", "repo": repo, "revision": revision}, staging, 1, progress)
    return answer["commit"], answer["files"]


def _ask(request: dict[str, Any], staging: Path, total_bytes: int, progress: Progress) -> dict[str, Any]:
    (staging / REQUEST).write_text(json.dumps(request))
    command = [sys.executable, "-m", "runners.models.hub_process", str(staging)]
    settings = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    downloader = Downloader("the hub", command, staging, total_bytes, {**settings, **QUIET})
    status, said = downloader.run(total_bytes, progress)
    try:
        answer: dict[str, Any] = json.loads((staging / RESULT).read_text())
    except (OSError, ValueError) as error:
        raise FetchFailed(f"the hub's client ended with status {status}: {said}") from error
    if fault := answer.get("error"):
        raise (FetchFailed if answer["retry"] else SourceRefused)(fault)
    return answer
