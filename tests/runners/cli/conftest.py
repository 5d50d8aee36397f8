"""What the tests of the command line share: a terminal, and the control plane's parts of tests/experiments."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_terminal import REPOSITORY, Terminal

sys.path.insert(0, str(REPOSITORY / "tests" / "experiments"))


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)
