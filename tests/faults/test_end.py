"""The lab is ended in mid-run: at once and wholly; the next start brings the run to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from whole_lab import WholeLab, seconds_of

from faults.stored import assert_all_stored_once, assert_succeeded, start_run

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
def test_a_lab_ended_in_mid_run_leaves_no_process_and_its_next_start_finishes_the_run(own_lab: WholeLab) -> None:
    run_id = start_run(own_lab, duration_s=10)
    assert len(own_lab.processes()) > 12
    assert seconds_of(lambda: own_lab.end(END_WITHIN_S + 5)) < END_WITHIN_S
    assert own_lab.processes() == []

    own_lab.start()
    assert_succeeded(own_lab, run_id, attempt=2)
    assert "agent was stopped" in own_lab.run(run_id)["attempts"][0]["reason"]
    assert_all_stored_once(own_lab, run_id, attempt=1)

    own_lab.end(END_WITHIN_S + 5)
    assert own_lab.processes() == []
