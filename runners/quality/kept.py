"""Figures of a text that were measured on this node before, so that repeats of a run do not compute them again.

A file per (model's hash, precision, kernels, windows, text, revision of this source), written whole or not at all. They
depend on these alone; a source with changes that are not committed has no revision, and keeps nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runners.quality_figures import QualityFacts

FOLDER = ".quality"


class KeptFigures:
    """In a folder beside the models."""

    def __init__(self, models_dir: Path, key: Mapping[str, Any], revision: str | None) -> None:
        named = json.dumps({**key, "revision": revision}, sort_keys=True)
        name = hashlib.sha256(named.encode()).hexdigest()[:32]
        is_known = revision is not None and not revision.endswith("-dirty")
        self._file = models_dir / FOLDER / f"{name}.json" if is_known else None

    def read(self) -> dict[str, Any] | None:
        """None where there are none, or what is there is no report of quality."""
        if self._file is None:
            return None
        try:
            held = json.loads(self._file.read_bytes())
            QualityFacts.model_validate(held)
        except (OSError, ValueError, ValidationError):
            return None
        return dict(held)

    def keep(self, figures: Mapping[str, Any]) -> None:
        """Raises OSError where the disk does not take them."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(figures))
        part.replace(self._file)
