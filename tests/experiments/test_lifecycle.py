"""What the end of an attempt means for its run: the whole table, without a database."""

from __future__ import annotations

import itertools

import pytest

from experiments.lifecycle import Stop, Verdict, judge_loss, judge_report, judge_stopped
from experiments.models import AttemptState, RunState

CANCEL = Stop(RunState.CANCELLED, "cancelled by ada")
LIMIT = Stop(RunState.FAILED, "too long")


@pytest.mark.parametrize(
    ("outcome", "retry", "stop", "left", "attempt", "run", "reason"),
    [
        ("succeeded", False, None, True, "succeeded", "succeeded", ""),
        ("succeeded", False, CANCEL, True, "succeeded", "succeeded", ""),
        ("succeeded", False, LIMIT, False, "succeeded", "succeeded", ""),
        ("failed", True, None, True, "failed", "queued", "why"),
        ("failed", True, None, False, "failed", "failed", "why"),
        ("failed", False, None, True, "failed", "failed", "why"),
        ("failed", True, CANCEL, True, "failed", "cancelled", "cancelled by ada"),
        ("failed", True, LIMIT, True, "failed", "failed", "too long"),
        ("cancelled", False, None, True, "cancelled", "queued", "why"),
        ("cancelled", False, None, False, "cancelled", "failed", "why"),
        ("cancelled", False, CANCEL, True, "cancelled", "cancelled", "cancelled by ada"),
        ("cancelled", False, LIMIT, True, "cancelled", "failed", "too long"),
    ],
)
def test_a_report_is_judged_by_outcome_stop_and_retries(
    outcome: str, retry: bool, stop: Stop | None, left: bool, attempt: str, run: str, reason: str
) -> None:
    assert judge_report(outcome, "why", retry, stop, left) == Verdict(AttemptState(attempt), RunState(run), reason)


def test_a_failure_without_a_word_still_has_a_reason() -> None:
    assert judge_report("failed", "", False, None, True).reason == "the node reported 'failed' without a reason"


@pytest.mark.parametrize(
    ("stop", "left", "run", "reason"),
    [
        (None, True, "queued", "lost"),
        (None, False, "failed", "lost"),
        (CANCEL, True, "cancelled", "cancelled by ada"),
        (LIMIT, True, "failed", "too long"),
    ],
)
def test_a_loss_is_tried_again_unless_stopped_or_tried_enough(
    stop: Stop | None, left: bool, run: str, reason: str
) -> None:
    assert judge_loss("lost", stop, left) == Verdict(AttemptState.LOST, RunState(run), reason)


@pytest.mark.parametrize("stop", [CANCEL, LIMIT])
def test_a_stop_that_is_done_becomes_what_was_asked(stop: Stop) -> None:
    assert judge_stopped(stop) == Verdict(AttemptState.CANCELLED, stop.outcome, stop.reason)


def test_no_verdict_leaves_a_run_assigned_or_running() -> None:
    outcomes, flags, stops = ("succeeded", "failed", "cancelled"), (True, False), (None, CANCEL, LIMIT)
    verdicts = [
        judge_report(outcome, "why", retry, stop, left)
        for outcome, retry, stop, left in itertools.product(outcomes, flags, stops, flags)
    ]
    verdicts += [judge_loss("why", stop, left) for stop, left in itertools.product(stops, flags)]
    assert not {RunState.ASSIGNED, RunState.RUNNING} & {verdict.run for verdict in verdicts}
    assert all(verdict.run != RunState.QUEUED or verdict.attempt != AttemptState.SUCCEEDED for verdict in verdicts)
