"""Threads spin shortly while they wait, unless the environment says otherwise; an engine's process is started so."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from server_process import ServerProcess
from tiny_model import write_tiny_model

from runners.runtime.threads import SPINS, thread_environment


def test_threads_spin_shortly_where_nothing_is_said() -> None:
    assert thread_environment({"HOME": "/root"}) == {"HOME": "/root", "GOMP_SPINCOUNT": SPINS}


@pytest.mark.parametrize("said", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "1000"}])
def test_what_the_environment_says_is_kept(said: dict[str, str]) -> None:
    assert thread_environment(said) == said


def test_an_engine_is_started_with_threads_that_spin_shortly(tmp_path: Path) -> None:
    unsaid = {name: value for name, value in os.environ.items() if name not in {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}}
    server = ServerProcess(write_tiny_model(tmp_path / "tiny.gguf"), "--max-model-len", "64", env=unsaid)
    try:
        (engine,) = psutil.Process(server.process.pid).children()
        assert engine.environ()["GOMP_SPINCOUNT"] == SPINS
    finally:
        server.process.terminate()
        server.process.wait(30)
