"""The browsers in which a person is signed in: noted as they come, listed for him, and ended by him.

A sign-in is a row beside Django's own session; the session alone decides who is signed in, so ending one deletes it.
API tokens are not sign-ins, and sockets that are open stay so until they close.
"""

from __future__ import annotations

import datetime as dt
from importlib import import_module

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from labsite.accounts.audit import record
from labsite.accounts.models import SignIn, User
from labsite.accounts.origin import client_address

# "Seen" is told to the minute; a write per request would be load without a reader.
SEEN_STEP = dt.timedelta(minutes=1)
AGENT_LENGTH = 300


def note_seen(user: User, request: HttpRequest) -> None:
    """Notes that this browser is in use. One query; a write at its first request and then once a minute."""
    key, now = request.session.session_key, timezone.now()
    if key is None or SignIn.objects.filter(session_key=key, user=user, seen_at__gt=now - SEEN_STEP).exists():
        return
    agent = request.headers.get("User-Agent", "").replace("\x00", "")[:AGENT_LENGTH]
    fields = {"user": user, "address": client_address(request), "user_agent": agent, "seen_at": now}
    _, created = SignIn.objects.update_or_create(session_key=key, defaults=fields)
    if created:
        _forget_ended(user)


def sign_ins_of(user: User) -> QuerySet[SignIn]:
    """The browsers in which he is signed in now, the one used last first."""
    return SignIn.objects.filter(user=user, session_key__in=_live_sessions())


def end_sign_in(user: User, sign_in: SignIn) -> None:
    """From now on that browser is signed out."""
    _end(user, [sign_in])


def end_other_sign_ins(user: User, request: HttpRequest) -> int:
    """Signs out every browser of his but this one; says how many."""
    others = list(sign_ins_of(user).exclude(session_key=request.session.session_key or ""))
    _end(user, others)
    return len(others)


@transaction.atomic
def _end(user: User, sign_ins: list[SignIn]) -> None:
    store = import_module(settings.SESSION_ENGINE).SessionStore
    for sign_in in sign_ins:
        record(user, "session.end", sign_in)
        store().delete(sign_in.session_key)
        sign_in.delete()


def _forget_ended(user: User) -> None:
    SignIn.objects.filter(user=user).exclude(session_key__in=_live_sessions()).delete()


def _live_sessions() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")  # type: ignore[return-value]
