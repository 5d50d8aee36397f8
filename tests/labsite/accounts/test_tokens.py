"""API tokens: shown once, kept as a hash, good until they expire or are revoked."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from labsite.accounts.models import ApiToken, AuditEntry, User
from labsite.accounts.tokens import TokenRefused, authenticate_token, create_token, revoke_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ada")


def test_a_token_stands_for_its_user(user: User) -> None:
    assert authenticate_token(create_token(user, "laptop").plain) == user


def test_only_its_hash_is_kept(user: User) -> None:
    new = create_token(user, "laptop")
    kept = str(ApiToken.objects.values().get())
    assert new.plain not in kept
    assert new.plain.startswith(new.record.prefix)
    assert len(new.plain) - len(new.record.prefix) >= 32


def test_tokens_differ(user: User) -> None:
    assert len({create_token(user, "one").plain for _ in range(20)}) == 20


@pytest.mark.parametrize("wrong", ["", "lab_", "lab_x", "x" * 10_000, "\0", "\ud800", "ключ"])
def test_a_wrong_token_stands_for_nobody(user: User, wrong: str) -> None:
    create_token(user, "laptop")
    assert authenticate_token(wrong) is None


def test_an_expired_token_stands_for_nobody(user: User) -> None:
    now = timezone.now()
    old = create_token(user, "old", now + dt.timedelta(hours=1))
    ApiToken.objects.filter(pk=old.record.pk).update(expires_at=now - dt.timedelta(seconds=1))
    assert authenticate_token(old.plain) is None
    assert authenticate_token(create_token(user, "new", now + dt.timedelta(hours=1)).plain) == user


def test_a_revoked_token_stands_for_nobody(user: User) -> None:
    new = create_token(user, "laptop")
    revoke_token(new.record)
    assert authenticate_token(new.plain) is None
    first = ApiToken.objects.get().revoked_at
    revoke_token(new.record)
    assert ApiToken.objects.get().revoked_at == first


def test_the_token_of_an_inactive_user_stands_for_nobody(user: User) -> None:
    new = create_token(user, "laptop")
    User.objects.update(is_active=False)
    assert authenticate_token(new.plain) is None


def test_its_last_use_is_written_at_most_once_a_minute(user: User) -> None:
    new = create_token(user, "laptop")
    authenticate_token(new.plain)
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    authenticate_token(new.plain)
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - dt.timedelta(minutes=2))
    authenticate_token(new.plain)
    assert ApiToken.objects.get().last_used_at != first - dt.timedelta(minutes=2)


def test_a_token_that_would_have_expired_already_is_refused(user: User) -> None:
    with pytest.raises(TokenRefused, match="expired already"):
        create_token(user, "old", timezone.now())
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("name", ["", "x" * 101, "a\x00b", "a\nb", "\u202eabc"])
def test_a_name_that_can_not_be_shown_is_refused(user: User, name: str) -> None:
    with pytest.raises(TokenRefused, match="no name for a token"):
        create_token(user, name)


def test_making_and_revoking_a_token_is_on_record(user: User) -> None:
    boss = User.objects.create_superuser("boss")
    new = create_token(user, "laptop", by=boss)
    revoke_token(new.record)
    revoke_token(new.record)
    made, revoked = AuditEntry.objects.order_by("id")
    assert (made.username, made.action, made.detail["owner"]) == ("boss", "token.create", user.username)
    assert (revoked.username, revoked.action, revoked.object_id) == (user.username, "token.revoke", str(new.record.pk))
    assert new.plain not in str([made.detail, revoked.detail, made.object_name])
