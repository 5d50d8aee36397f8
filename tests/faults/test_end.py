"""The lab itself is killed, then ended, in mid-run: nothing of it is left, and its next start finishes the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from whole_lab import WholeLab, seconds_of

from faults.stored import assert_all_stored_once, assert_succeeded, start_run, wait_until_measuring

END_WITHIN_S = 10.0


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[WholeLab]:
    running = WholeLab(tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.clear()


@pytest.mark.timeout(900)
def test_a_lab_killed_and_then_ended_in_mid_run_finishes_the_run_on_its_next_start(own_lab: WholeLab) -> None:
    run_id = start_run(own_lab, duration_s=5, retries=2)
    own_lab.process.kill()
    own_lab.process.wait(10)

    own_lab.start()
    wait_until_measuring(own_lab, run_id, attempt=2)
    assert len(own_lab.processes()) > 12
    assert seconds_of(lambda: own_lab.end(END_WITHIN_S + 5)) < END_WITHIN_S
    assert own_lab.processes() == []

    own_lab.start()
    assert_succeeded(own_lab, run_id, attempt=3)
    for attempt in (1, 2):
        assert assert_all_stored_once(own_lab, run_id, attempt)["outcome"] == "failed"
        assert "agent" in own_lab.run(run_id)["attempts"][attempt - 1]["reason"]
    own_lab.end(END_WITHIN_S + 5)
    assert own_lab.processes() == []
