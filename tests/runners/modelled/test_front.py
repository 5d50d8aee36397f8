"""What a measured run tells of its server's work outside of steps."""

from __future__ import annotations

import pytest

from runners.events import RequestRecord
from runners.modelled.front import intake_of


def record(sent_s: float, queued_s: float) -> RequestRecord:
    return RequestRecord(
        index=0, request_id="r", phase="measured", scheduled_s=sent_s, sent_s=sent_s, queued_s=queued_s,
        prefill_done_s=queued_s + 1.0, first_token_s=queued_s + 1.001, status="ok",
    )  # fmt: skip


def test_intake_is_what_no_step_held_up() -> None:
    waited = [record(float(i), i + 0.5) for i in range(18)]
    undisturbed = [record(float(i), i + 0.002) for i in range(18, 20)]
    assert intake_of([*waited, *undisturbed]) == pytest.approx(0.003, abs=1e-4)
    assert intake_of([]) == 0.0
