"""What tests of runners share: how their threads wait, and the sample model's file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners import models
from runners.runtime.threads import thread_environment

os.environ.update(thread_environment(os.environ))  # before any test module imports torch, which loads OpenMP


@pytest.fixture(scope="session")
def sample_model() -> Path:
    """The sample model's file, fetched into the lab's home where it is absent."""
    return models.fetch("smollm2-135m-instruct")
