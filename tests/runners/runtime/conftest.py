"""The sample model's file, fetched once into the lab's home."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners import models


@pytest.fixture(scope="session")
def sample_model() -> Path:
    return models.fetch("smollm2-135m-instruct")
