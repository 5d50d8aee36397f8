"""Server-sent events from bytes as they arrive: gives the `data` of each complete event. Knows no HTTP.

Of the format (WHATWG HTML, section 9.2.6) it reads `data` lines and comments; `event`, `id` and `retry` are passed
over. Lines may end in LF, CR LF or CR.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 1024 * 1024


class SseError(Exception):
    """The stream is not server-sent events, or an event is longer than MAX_EVENT_BYTES."""


class SseParser:
    """Feed it bytes in whatever pieces they come; the pieces never change the events."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._data_bytes = 0
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """The events that `piece` completes. Raises SseError."""
        if self._after_cr and piece.startswith(b"\n"):
            piece, self._after_cr = piece[1:], False
        if piece:
            self._after_cr = piece.endswith(b"\r")
        self._line += piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = self._line.split(b"\n")
        self._line = rest
        if len(rest) + self._data_bytes > MAX_EVENT_BYTES:
            raise SseError(f"an event is longer than {MAX_EVENT_BYTES} bytes")
        return [event for line in lines if (event := self._take_line(line)) is not None]

    def _take_line(self, line: bytearray) -> str | None:
        if not line:
            event = "\n".join(self._data) if self._data else None
            self._data, self._data_bytes = [], 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            try:
                self._data.append(value.removeprefix(b" ").decode("utf-8"))
            except UnicodeDecodeError as error:
                raise SseError(f"an event is not UTF-8: {error.reason}") from error
            self._data_bytes += len(value)
        return None
