"""API tokens of people: made, checked and revoked. The token itself is seen once, by the one who made it.

A token is 256 random bits, so its SHA-256 can be looked up by an index: what an index's timing could tell is about
a hash that nobody can steer, and a wrong token costs the same work whatever it is.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from dataclasses import dataclass

from django.db.models import Q
from django.utils import timezone

from labsite.accounts.models import ApiToken, User

PREFIX = "lab_"
# `last_used_at` tells a person which tokens are in use; a write per request would be load without a reader.
LAST_USED_STEP = dt.timedelta(minutes=1)


@dataclass(frozen=True)
class NewToken:
    """A token just made. `plain` is kept nowhere else."""

    record: ApiToken
    plain: str


def digest_of(plain: str) -> str:
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def create_token(user: User, name: str, expires_at: dt.datetime | None = None) -> NewToken:
    plain = PREFIX + secrets.token_urlsafe(32)
    record = ApiToken.objects.create(
        user=user, name=name, prefix=plain[:12], digest=digest_of(plain), expires_at=expires_at
    )
    return NewToken(record, plain)


def authenticate_token(plain: str) -> User | None:
    """The active user whose token this is; None for one unknown, revoked or expired."""
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user")
        .filter(Q(expires_at=None) | Q(expires_at__gt=now))
        .filter(digest=digest_of(plain), revoked_at=None, user__is_active=True)
        .first()
    )
    if token is None:
        return None
    if token.last_used_at is None or now - token.last_used_at > LAST_USED_STEP:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token.user


def revoke_token(token: ApiToken) -> None:
    """From now on the token opens nothing. Revoking twice keeps the first time."""
    ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
