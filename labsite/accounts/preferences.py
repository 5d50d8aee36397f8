"""What a person has chosen for his pages: light or dark, and the time zone in which every time is shown to him."""

from __future__ import annotations

import zoneinfo
from functools import cache

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin

from labsite.accounts.audit import record
from labsite.accounts.models import Theme, User
from labsite.accounts.sign_ins import note_seen


class BadPreference(Exception):
    """A choice that there is not. `allowed` says where to look for those that there are."""

    def __init__(self, field: str, message: str, allowed: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.allowed = allowed


@cache
def time_zones() -> tuple[str, ...]:
    """Names of places and UTC; without the legacy names that stand for the same zones."""
    names = zoneinfo.available_timezones()
    return ("UTC", *sorted(name for name in names if "/" in name and not name.startswith(("Etc/", "SystemV/", "US/"))))


def set_preferences(user: User, theme: str, time_zone: str) -> None:
    """Raises BadPreference, and then changes nothing."""
    if theme not in Theme.values:
        raise BadPreference("theme", f"{theme[:40]!r} is no theme", ", ".join(Theme.values))
    if time_zone not in time_zones():
        raise BadPreference("time_zone", f"{time_zone[:64]!r} is no time zone", "UTC, or a place such as Europe/Berlin")
    User.objects.filter(pk=user.pk).update(theme=theme, time_zone=time_zone)
    user.theme, user.time_zone = theme, time_zone
    record(user, "user.preferences", user, theme=theme, time_zone=time_zone)


class FollowPerson(MiddlewareMixin):
    """For whoever comes with a session: times in his zone, and his browser noted as in use."""

    def process_request(self, request: HttpRequest) -> None:
        # Asking for the user reads the session; who sends no cookie has none.
        signed_in = request.user if settings.SESSION_COOKIE_NAME in request.COOKIES else None
        if signed_in is not None and signed_in.is_authenticated:
            timezone.activate(_zone(signed_in.time_zone))
            note_seen(signed_in, request)
        else:
            timezone.deactivate()


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):  # a zone that this machine's tables don't have
        return zoneinfo.ZoneInfo("UTC")
