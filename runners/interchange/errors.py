"""Why a result file is refused."""

from __future__ import annotations


class BadFile(Exception):
    """A file that can't be taken as it is. `where` is the place in it (a line, or a path such as `ttfts[12]`),
    `allowed` what would do there. Sending the same file again gives the same answer."""

    retry = False

    def __init__(self, where: str, message: str, allowed: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where
        self.message = message
        self.allowed = allowed
