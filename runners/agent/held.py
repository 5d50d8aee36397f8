"""Which models this node tells the lab that it holds. Looked at again now and then: they also come and go by hand."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from runners.models import held_models

LOOK_EVERY_S = 30.0
MOST_TOLD = 1000
"""As many as a heartbeat takes."""

log = logging.getLogger(__name__)


class HeldModels:
    def __init__(self, models_dir: Path) -> None:
        self._models_dir = models_dir
        self._told: list[dict[str, str]] | None = None
        self._looked_s = float("-inf")

    def news(self, *, now: bool = False) -> list[dict[str, str]] | None:
        """All that are held, if that changed since the last call; else None. Looks every LOOK_EVERY_S, or `now`."""
        if not now and time.monotonic() - self._looked_s < LOOK_EVERY_S:
            return None
        self._looked_s = time.monotonic()
        found = held_models(self._models_dir)
        if len(found) > MOST_TOLD:
            log.warning("of %d models only %d are told to the lab", len(found), MOST_TOLD)
            found = found[:MOST_TOLD]
        if found == self._told:
            return None
        self._told = found
        return found
