"""When two runs were of the same settings: what they were given, apart from which run it was.

Not part of it are the seed (repeats differ by it), the code's revision (whether that changed anything is the question)
and the price. A default that a later version of the lab adds changes no key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from runners.spec import RunSpec

IDENTITY = frozenset(
    {
        "run_id", "experiment_id", "trial_index", "repeat", "seed", "settings", "code_revision", "time_limit_s",
        "usd_per_hour", "cost", "chip", "chips", "links",
    }
)  # fmt: skip


def settings_key(spec: Mapping[str, Any]) -> str:
    """The SHA-256 of a run's frozen settings, as hex."""
    try:
        said = RunSpec.model_validate(spec).model_dump(mode="json", exclude=set(IDENTITY), exclude_defaults=True)
    except ValidationError:
        # frozen by a version whose fields are no longer known: it equals only what was frozen alike
        said = {key: value for key, value in spec.items() if key not in IDENTITY}
    for model in (said.get("model"), said.get("draft")):
        if model:
            model.pop("entry", None)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
