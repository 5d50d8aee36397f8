"""Why a model can't be had. `retry` says whether the same call may succeed later."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

# The disk takes no more: full, past a quota, or past the largest file that is allowed.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ModelError(Exception):
    """The root of all that this package raises."""

    retry = False


class UnknownModel(ModelError):
    def __init__(self, name: str, allowed: Iterable[str]) -> None:
        self.name = name
        self.allowed = sorted(allowed)
        super().__init__(f"no model is registered as {name!r}; registered: {', '.join(self.allowed)}")


class BadEntry(ModelError):
    """A registered model's description can't be true. `faults` has (dotted field, what is wrong, what is allowed)."""

    def __init__(self, faults: list[tuple[str, str, str]]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{field}: {message} (allowed: {allowed})" for field, message, allowed in faults))


class FetchFailed(ModelError):
    """The source did not give the model this time."""

    retry = True


class SourceRefused(ModelError):
    """The source will not give the model however often it is asked: it is missing there, or this machine forbids it."""


class FetchStopped(ModelError):
    """Whoever asked for the model no longer wants it."""

    retry = True


class DiskFull(ModelError):
    """Nothing of the model is left on the disk. Another try fails alike until somebody makes room."""

    def __init__(self, directory: Path, needed_bytes: int | None, free_bytes: int) -> None:
        self.needed_bytes, self.free_bytes = needed_bytes, free_bytes
        needs = "" if needed_bytes is None else f"the model needs {needed_bytes:,} bytes there, "
        super().__init__(f"{directory} has too little room: {needs}{free_bytes:,} are free")


class HashMismatch(ModelError):
    """The file is not the one that was registered."""

    def __init__(self, path: Path, expected: str, found: str) -> None:
        self.path, self.expected, self.found = path, expected, found
        super().__init__(f"{path} has SHA-256 {found}, registered is {expected}")


class WrongSize(ModelError):
    def __init__(self, path: Path, expected: int, found: int) -> None:
        super().__init__(f"{path} has {found:,} bytes, registered are {expected:,}")
