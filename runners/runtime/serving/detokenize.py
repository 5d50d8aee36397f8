"""Tokens in, text out, one token at a time: UTF-8 that spans tokens and stop strings that span tokens.

A piece of text is given out as soon as no later token can change it. What is held back is at most an
unfinished UTF-8 sequence and the longest tail that may yet become a stop string. It knows neither requests
nor HTTP.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence


class StopMatcher:
    """Finds the stop string that is complete first; of several that end at one character, the longest.

    The rule looks at characters alone, so the way in which text arrives in pieces never changes the result. The stop
    string itself is given out only with `include_stop`.
    """

    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        self.stops = tuple(stops)
        self.found: str | None = None
        self._include_stop = include_stop
        self._held = ""

    @property
    def stopped(self) -> bool:
        return self.found is not None

    def push(self, text: str) -> str:
        """Text that is now certain: everything before a stop string, nothing that may yet begin one."""
        if self.stopped:
            return ""
        if not self.stops:
            return text
        window = self._held + text
        match = self._first_match(window)
        if match is not None:
            at, self.found = match
            self._held = ""
            return window[:at] + (self.found if self._include_stop else "")
        keep = self._tail_len(window)
        self._held = window[len(window) - keep :]
        return window[: len(window) - keep]

    def finish(self) -> str:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, window: str) -> tuple[int, str] | None:
        """Where the stop string begins, and which it is."""
        ends = [(at + len(stop), at, stop) for stop in self.stops if (at := window.find(stop)) >= 0]
        return min(ends)[1:] if ends else None

    def _tail_len(self, window: str) -> int:
        longest = min(max(map(len, self.stops)) - 1, len(window))
        return next((n for n in range(longest, 0, -1) if self._begins_a_stop(window[-n:])), 0)

    def _begins_a_stop(self, tail: str) -> bool:
        return any(stop.startswith(tail) for stop in self.stops)


class Detokenizer:
    """The text of one sequence. Invalid UTF-8 becomes U+FFFD, as `bytes.decode(errors="replace")` gives it.

    The text of the first `min_tokens` tokens is not searched for stop strings.
    """

    def __init__(
        self,
        token_bytes: Callable[[int], bytes],
        stops: Sequence[str] = (),
        min_tokens: int = 0,
        *,
        include_stop: bool = False,
    ) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._matcher = StopMatcher(stops, include_stop=include_stop)
        self._min_tokens = min_tokens
        self.num_tokens = 0

    @property
    def stopped(self) -> bool:
        """A stop string is complete: nothing more will be given out."""
        return self._matcher.stopped

    @property
    def found_stop(self) -> str | None:
        """The stop string that is complete."""
        return self._matcher.found

    def push(self, token_id: int) -> str:
        """Take one token; gives the text that is certain by now, often empty."""
        self.num_tokens += 1
        text = self._decoder.decode(self._token_bytes(token_id))
        return text if self.num_tokens <= self._min_tokens else self._matcher.push(text)

    def finish(self) -> str:
        """The rest, at the end of the sequence. May itself complete a stop string (then `stopped` is set)."""
        rest = self._decoder.decode(b"", final=True)
        if self.num_tokens <= self._min_tokens:
            return rest
        text = self._matcher.push(rest)
        return text if self._matcher.stopped else text + self._matcher.finish()
