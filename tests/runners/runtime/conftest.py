"""The sample model's file, fetched once into the lab's home. Imports the runtime before any test imports torch."""

from __future__ import annotations

from pathlib import Path

import pytest

import runners.runtime  # noqa: F401  settles OpenMP's waiting, which torch reads when it loads
from runners import models


@pytest.fixture(scope="session")
def sample_model() -> Path:
    return models.fetch("smollm2-135m-instruct")
