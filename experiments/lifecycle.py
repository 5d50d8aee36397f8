"""What the end of an attempt means for the attempt and for its run. Pure: facts in, verdict out.

A run that a person or its time limit is stopping becomes what the stop says, whatever the attempt's end was, unless
it had already succeeded. Otherwise a loss, or a failure that the node calls worth a retry, sends the run back to
the queue while retries are left.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.models import AttemptState, RunState


@dataclass(frozen=True)
class Stop:
    """A stop that was asked for: what the run becomes, and why."""

    outcome: RunState
    reason: str


@dataclass(frozen=True)
class Verdict:
    attempt: AttemptState
    run: RunState
    reason: str


def judge_report(outcome: str, error: str, retry: bool, stop: Stop | None, retries_left: bool) -> Verdict:
    """The node reported. A cancel that nobody asked for is the node going down: as good as a loss."""
    if outcome == "succeeded":
        return Verdict(AttemptState.SUCCEEDED, RunState.SUCCEEDED, "")
    attempt = AttemptState.CANCELLED if outcome == "cancelled" else AttemptState.FAILED
    if stop:
        return Verdict(attempt, stop.outcome, stop.reason)
    reason = error or f"the node reported {outcome!r} without a reason"
    again = retries_left and (retry or outcome == "cancelled")
    return Verdict(attempt, RunState.QUEUED if again else RunState.FAILED, reason)


def judge_loss(reason: str, stop: Stop | None, retries_left: bool) -> Verdict:
    """Nothing is known of the attempt any more, and its node runs it no more or will not for long."""
    if stop:
        return Verdict(AttemptState.LOST, stop.outcome, stop.reason)
    return Verdict(AttemptState.LOST, RunState.QUEUED if retries_left else RunState.FAILED, reason)


def judge_stopped(stop: Stop) -> Verdict:
    """No process of the attempt is left, by the node's word or because its lease ran out."""
    return Verdict(AttemptState.CANCELLED, stop.outcome, stop.reason)
