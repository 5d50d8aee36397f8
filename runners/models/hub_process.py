"""`python -m runners.models.hub_process FOLDER`: does what FOLDER/request.json asks of the hub, answers in result.json.

Run as a child by `runners.models.hub`. Errors are part of the answer, with whether another try makes sense.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from runners.models.errors import NO_ROOM

TOO_MANY, SERVER_FAULT = 429, 500
DENIED = (401, 403)
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    request = json.loads((folder / "request.json").read_text())
    try:
        answer = ACTS[request["act"]](request, folder)
    except OSError as error:
        if error.errno in NO_ROOM:
            print(os.strerror(error.errno), file=sys.stderr)
            return 1
        answer = _fault(request, error)
    except Exception as error:
        # Whatever the client raises becomes the answer: a traceback would tell a user less.
        answer = _fault(request, error)
    (folder / "result.json").write_text(json.dumps(answer))
    return 0


def download(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    # One question without the client's patient repeats: a hub that is away is told at once.
    get_hf_file_metadata(hf_hub_url(request["repo"], request["names"][0], revision=request["revision"]))
    for name in request["names"]:
        request["name"] = name
        hf_hub_download(request["repo"], name, revision=request["revision"], local_dir=folder / "files")
    return {}


def resolve(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    found = HfApi().model_info(request["repo"], revision=request["revision"], files_metadata=True, timeout=20)
    return {"commit": found.sha, "files": {file.rfilename: file.size or 0 for file in found.siblings or []}}


ACTS = {"download": download, "resolve": resolve}


def _fault(request: dict[str, Any], error: Exception) -> dict[str, Any]:
    file = f"{request['name']} of " if "name" in request else ""
    message, retry = _explain(f"{file}{request['repo']} at {request['revision'] or 'its main branch'}", error)
    return {"error": message, "retry": retry}


def _explain(what: str, error: Exception) -> tuple[str, bool]:
    hub = constants.ENDPOINT
    # A subclass comes before its base: the client's errors are each other's kin.
    match error:
        case OfflineModeIsEnabled():
            return f"{what} is not here, and the hub is not asked: HF_HUB_OFFLINE is set", False
        case GatedRepoError():
            return f"{what} needs an accepted licence and a token of the hub (HF_TOKEN on this machine)", False
        case LocalEntryNotFoundError():
            cause = error.__cause__ or error.__context__
            if isinstance(cause, OfflineModeIsEnabled) or constants.is_offline_mode():
                return _explain(what, OfflineModeIsEnabled())
            return f"the hub at {hub} can't be reached for {what}: {_short(cause or error)}", True
        case RepositoryNotFoundError():
            return f"the hub at {hub} has no such repository, or it is private: {what}", False
        case RevisionNotFoundError():
            return f"the hub at {hub} has no such revision: {what}", False
        case EntryNotFoundError():
            return f"the hub at {hub} has no {what}", False
        case HfHubHTTPError() if error.response is not None:
            status = error.response.status_code
            retry = status >= SERVER_FAULT or status == TOO_MANY
            key = ": it may be private (HF_TOKEN on this machine)" if status in DENIED else ""
            return f"the hub at {hub} answers with status {status} for {what}{key}", retry
    # A certificate that is not trusted now is not trusted a moment later either.
    return f"the hub at {hub} did not give {what}: {_short(error)}", UNTRUSTED not in str(error)


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
