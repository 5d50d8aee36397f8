"""What the lab refuses, apart from a wrong document (runners.document.SpecError) and a missing role
(labsite.accounts.permissions.AccessDenied)."""

from __future__ import annotations

from typing import Any


class ExperimentError(Exception):
    """A request about experiments can't be done. `retry` says whether the same request may succeed later."""

    retry = False


class ClaimRefused(ExperimentError):
    """The attempt is not this node's to run. A stale or doubled message ends here, and does no harm."""


class IdempotencyConflict(ExperimentError):
    """The key was used for another document, or for an experiment that is deleted."""

    def __init__(self, key: str, experiment_id: int, why: str = "which has another document") -> None:
        super().__init__(
            f"the idempotency key {key!r} belongs to experiment {experiment_id}, {why};"
            " use a new key for a new experiment"
        )
        self.experiment_id = experiment_id


class WrongState(ExperimentError):
    """What was asked for can't be done to a thing in the state that it is in."""


class ReportMissing(ExperimentError):
    """An attempt was to be finished before its report and all its events were stored."""

    retry = True


class BadParameter(ExperimentError):
    """A parameter of a request can't be taken: which, why, and what could."""

    def __init__(self, field: str, message: str, allowed: Any = None) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
        self.allowed = allowed


class NoFinalAttempt(ExperimentError):
    """The records of a run were asked for before it has ended, without saying of which attempt."""

    retry = True

    def __init__(self, run_id: int, attempts: list[int]) -> None:
        which = f"ask for attempt={attempts[-1]}, or" if attempts else "it has no attempt yet:"
        super().__init__(f"run {run_id} has not ended, so it has no final attempt: {which} wait for its end")


class NotALadder(ExperimentError):
    """What each step gains was asked of an experiment whose design has no steps."""

    def __init__(self, experiment_id: int) -> None:
        super().__init__(f"experiment {experiment_id} is no ladder: its design has no steps")
