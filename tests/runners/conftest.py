"""What tests of runners share: the sample model's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners import models


@pytest.fixture(scope="session")
def sample_model() -> Path:
    """The sample model's file, fetched into the lab's home where it is absent."""
    return models.fetch("smollm2-135m-instruct")
