"""How often whom is served: the limits, and the counting of requests in the broker, shared by every web process.

Each limit is a moving window: of the last minute, say, at any moment. Where the broker does not answer, everything is
allowed and a log line says so; it is asked again some seconds later. Who a request counts for is in `throttle`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import redis
from django.core.exceptions import ImproperlyConfigured
from limits import RateLimitItem, parse
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter

log = logging.getLogger(__name__)

DEFAULTS = {
    "user": "1200/minute",  # a person's requests to the API, by all his tokens and sessions together
    "node": "600/minute",  # an agent's; it needs 12 heartbeats a minute and a claim for each run
    "anonymous": "300/minute",  # requests to the API without valid credentials, by address
    "sign_in": "60/minute",  # attempts to sign in, by address
    "sign_in_name": "10/minute",  # attempts that failed, by address and user name
}
OFF = "off"
TIMEOUT_S = 1.0
OUTAGE_PAUSE_S = 5.0


def chosen_limits(text: str) -> dict[str, RateLimitItem]:
    """The limits in force: the defaults, changed by a text such as `user=3000/minute,anonymous=off`; `off` alone
    means none. Raises ImproperlyConfigured."""
    if text.strip() == OFF:
        return {}
    chosen = dict(DEFAULTS)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, rate = (piece.strip() for piece in part.partition("="))
        if name not in DEFAULTS or not rate:
            raise ImproperlyConfigured(
                f"LAB_RATE_LIMITS: {part!r}; allowed: off, or NAME=RATE of {', '.join(DEFAULTS)}"
            )
        chosen[name] = rate
    return {name: _item(name, rate) for name, rate in chosen.items() if rate != OFF}


def _item(name: str, rate: str) -> RateLimitItem:
    try:
        return parse(rate)
    except ValueError as error:
        allowed = "a number and a unit, as 100/minute or 10/5 seconds, or off"
        raise ImproperlyConfigured(f"LAB_RATE_LIMITS: {name}={rate}; allowed: {allowed}") from error


@dataclass(frozen=True)
class Taken:
    """The count after a request: whether it fits, how many more do, and when the window is free again."""

    name: str
    allowed: bool
    amount: int
    window_s: int
    remaining: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """The fields of the IETF's draft on RateLimit header fields; on a refusal Retry-After (RFC 9110) too."""
        said = {
            "RateLimit-Policy": f'"{self.name}";q={self.amount};w={self.window_s}',
            "RateLimit": f'"{self.name}";r={self.remaining};t={self.reset_s}',
        }
        return said if self.allowed else {**said, "Retry-After": str(self.reset_s)}


class Limiter:
    """Counts in one broker. Safe in threads."""

    def __init__(self, url: str, limits: Mapping[str, RateLimitItem]) -> None:
        storage = RedisStorage(url, key_prefix="lab:limits", socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
        self._windows = MovingWindowRateLimiter(storage)
        self._limits = limits
        self._not_before = 0.0

    def take(self, name: str, key: str) -> Taken | None:
        """Counts one request of `key` against the limit. None where there is no such limit, or no broker."""
        item = self._limits.get(name)
        if item is None or time.monotonic() < self._not_before:
            return None
        try:
            allowed = self._windows.hit(item, name, key)
            reset_at, remaining = self._windows.get_window_stats(item, name, key)
        except redis.RedisError as error:
            self._allow_all(error)
            return None
        reset_s = max(1, round(reset_at - time.time()))
        return Taken(name, allowed, item.amount, item.get_expiry(), max(0, remaining), reset_s)

    def forgive(self, name: str, key: str) -> None:
        """Forgets the requests of `key`."""
        item = self._limits.get(name)
        if item is None or time.monotonic() < self._not_before:
            return
        try:
            self._windows.clear(item, name, key)
        except redis.RedisError as error:
            self._allow_all(error)

    def _allow_all(self, error: redis.RedisError) -> None:
        self._not_before = time.monotonic() + OUTAGE_PAUSE_S
        log.warning("requests are not counted for %g s: the broker does not answer: %s", OUTAGE_PAUSE_S, error)


@lru_cache(maxsize=4)
def limiter_of(url: str, limits: tuple[tuple[str, RateLimitItem], ...]) -> Limiter:
    """One limiter, with its connections, for each broker and set of limits."""
    return Limiter(url, dict(limits))
