"""API tokens of people: made, checked and revoked. The token itself is seen once, by the one who made it.

A token is 256 random bits, so its SHA-256 can be looked up by an index: what an index's timing could tell is about
a hash that nobody can steer, and a wrong token costs the same work whatever it is.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from labsite.accounts.audit import record
from labsite.accounts.models import ApiToken, User
from labsite.accounts.permissions import Person
from runners.plain_text import NAME_RULE, is_name

PREFIX = "lab_"
NAME_LENGTH = 100
# `last_used_at` tells a person which tokens are in use; a write per request would be load without a reader.
LAST_USED_STEP = dt.timedelta(minutes=1)


@dataclass(frozen=True)
class NewToken:
    """A token just made. `plain` is kept nowhere else."""

    record: ApiToken
    plain: str


def digest_of(plain: str) -> str:
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


class TokenRefused(Exception):
    """The token can't be made so: which field, why, and what could."""

    retry = False

    def __init__(self, field: str, message: str, allowed: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
        self.allowed = allowed


def check_token(name: str, expires_at: dt.datetime | None) -> None:
    """Raises TokenRefused where no token could be made so."""
    if not 1 <= len(name) <= NAME_LENGTH or not is_name(name):
        raise TokenRefused("name", "this is no name for a token", f"1 to {NAME_LENGTH} {NAME_RULE}")
    if expires_at is not None and expires_at <= timezone.now():
        raise TokenRefused("expires_at", "the token would have expired already", "a time to come")


@transaction.atomic
def create_token(user: User, name: str, expires_at: dt.datetime | None = None, *, by: Person | None = None) -> NewToken:
    """A token for the user, made `by` himself where nobody else is named. Raises TokenRefused."""
    check_token(name, expires_at)
    plain = PREFIX + secrets.token_urlsafe(32)
    made = ApiToken.objects.create(
        user=user, name=name, prefix=plain[:12], digest=digest_of(plain), expires_at=expires_at
    )
    until = expires_at.isoformat() if expires_at else None
    record(by or user, "token.create", made, name=name, owner=user.get_username(), expires_at=until)
    return NewToken(made, plain)


def tokens_of(user: User, *, live: bool | None = None) -> QuerySet[ApiToken]:
    """The user's tokens; with `live`, those that open something now, or those that do not."""
    own = ApiToken.objects.filter(user=user)
    if live is None:
        return own
    return own.filter(_opening()) if live else own.exclude(_opening())


def find_token(plain: str) -> ApiToken | None:
    """The token with its active user; None for one unknown, revoked or expired."""
    token = (
        ApiToken.objects.select_related("user")
        .filter(_opening(), digest=digest_of(plain), user__is_active=True)
        .first()
    )
    now = timezone.now()
    if token and (token.last_used_at is None or now - token.last_used_at > LAST_USED_STEP):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def authenticate_token(plain: str) -> User | None:
    """The active user whose token this is; None for one unknown, revoked or expired."""
    token = find_token(plain)
    return token.user if token else None


def opening(tokens: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
    """Of these tokens those that open something now."""
    return tokens.filter(_opening())


def _opening() -> Q:
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=timezone.now()))


@transaction.atomic
def revoke_token(token: ApiToken, *, by: Person | None = None) -> None:
    """From now on the token opens nothing. Revoking twice keeps the first time."""
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        record(by or token.user, "token.revoke", token, name=token.name, owner=token.user.get_username())
