"""How a command can fail, and with which exit status. The statuses are part of the command line's contract.

0    done
1    done, but the result is not good: a run failed or is invalid, an experiment was cancelled
2    wrong command line, or a file of the user's that can't be read or understood
3    the lab refused: not signed in, not allowed, not found, a faulty document
4    the lab can't be reached, or fails to answer
5    the time limit passed first
130  interrupted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

OK = 0
NOT_GOOD = 1
USAGE = 2
REFUSED = 3
UNREACHABLE = 4
TIMED_OUT = 5
FAULT = 70
INTERRUPTED = 130


class CommandFailed(Exception):
    """A command ends here with `status`; its text is for the person at the terminal. `retry`: may the same command
    succeed later?"""

    status = NOT_GOOD
    retry = False

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints on stderr."""
        return {"detail": str(self), "errors": [], "exit": self.status}


class WrongUse(CommandFailed):
    status = USAGE


class Refused(CommandFailed):
    """The lab answered with an error (4xx): `http_status`, `detail` and each field's fault as the API gives them."""

    status = REFUSED

    def __init__(self, http_status: int, detail: str, errors: Sequence[Mapping[str, Any]] = ()) -> None:
        faults = [f"  {error.get('field') or 'request'}: {fault_text(error)}" for error in errors]
        super().__init__("\n".join([f"{detail} ({http_status})", *faults]))
        self.http_status = http_status
        self.detail = detail
        self.errors = [dict(error) for error in errors]

    def as_dict(self) -> dict[str, Any]:
        return {"detail": self.detail, "errors": self.errors, "http_status": self.http_status, "exit": self.status}


class Unreachable(CommandFailed):
    """No answer, or none that makes sense, after the attempts that make sense."""

    status = UNREACHABLE
    retry = True


class TimedOut(CommandFailed):
    status = TIMED_OUT
    retry = True


def fault_text(error: Mapping[str, Any]) -> str:
    """What is wrong, and where that can be said what is allowed."""
    allowed = error.get("allowed")
    message = str(error.get("message", ""))
    return message if allowed in (None, [], {}) else f"{message} (allowed: {_allowed_text(allowed)})"


def _allowed_text(allowed: Any) -> str:
    if isinstance(allowed, Mapping):
        return ", ".join(f"{key} {value}" for key, value in allowed.items())
    return ", ".join(map(str, allowed)) if isinstance(allowed, list) else str(allowed)
