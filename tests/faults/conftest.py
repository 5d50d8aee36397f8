"""One lab for all faults that leave it standing, and a lab of its own where the lab itself is ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from whole_lab import WholeLab


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeLab]:
    running = WholeLab(tmp_path_factory.mktemp("lab"))
    try:
        running.start()
        yield running
    finally:
        running.clear()
