"""What ends a run before its time."""

from __future__ import annotations


class RunFailed(Exception):
    """The run can't go on. `retry` says whether another attempt of the same run may succeed."""

    def __init__(self, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry
