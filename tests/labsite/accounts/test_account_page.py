"""The account page: tokens, sessions, password, theme and time zone, each of oneself alone."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.test import Client
from django.utils import timezone

from labsite.accounts.models import ApiToken, AuditEntry, SignIn, User
from labsite.accounts.preferences import time_zones
from labsite.accounts.tokens import authenticate_token, create_token

pytestmark = pytest.mark.django_db

PASSWORD = "a long enough phrase"
POSTS = ["tokens", "tokens/1/revoke", "sessions/1/end", "sessions/end-others", "preferences"]


@pytest.fixture(autouse=True)
def cheap_passwords(settings) -> None:
    """The lab's own hashing takes long on purpose."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def user() -> User:
    return User.objects.create_user("anna", password=PASSWORD)


@pytest.fixture
def browser(user: User) -> Client:
    return signed_in()


def signed_in(agent: str = "Testbrowser/1.0") -> Client:
    client = Client(headers={"User-Agent": agent})
    assert client.login(username="anna", password=PASSWORD)
    client.get("/account/")
    return client


def page_of(client: Client) -> str:
    return client.get("/account/").content.decode()


def test_nobody_gets_in_without_signing_in():
    assert Client().get("/account/")["Location"].startswith("/accounts/login/")
    assert Client().get("/account/password")["Location"].startswith("/accounts/login/")
    for path in POSTS:
        assert Client().post(f"/account/{path}")["Location"].startswith("/accounts/login/"), path


def test_changes_need_a_post(browser):
    for path in POSTS:
        assert browser.get(f"/account/{path}").status_code == 405, path


# Tokens


def test_a_token_is_shown_once_and_opens_the_api(browser, user):
    answer = browser.post("/account/tokens", {"name": "laptop", "life": "30"})
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    plain = re.search(r"<code>(lab_[\w-]+)</code>", answer.content.decode())[1]
    assert authenticate_token(plain) == user
    assert plain not in page_of(browser)
    days = (ApiToken.objects.get().expires_at - timezone.now()) / dt.timedelta(days=1)
    assert 29 < days <= 30


@pytest.mark.parametrize(
    ("form", "field"),
    [({"name": "", "life": "30"}, "name"), ({"name": "x" * 101, "life": ""}, "name"), ({"name": "a\x00b"}, "name"),
     ({"name": "x", "life": "31"}, "life"), ({"name": "x", "life": "-1"}, "life")],
)  # fmt: skip
def test_a_token_that_cannot_be_made_says_why_and_keeps_the_name(browser, form, field):
    answer = browser.post("/account/tokens", form)
    assert answer.status_code == 422
    assert f"{field}: " in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_a_revoked_token_opens_nothing(browser, user):
    token = create_token(user, "old")
    browser.post(f"/account/tokens/{token.record.pk}/revoke")
    assert authenticate_token(token.plain) is None
    assert '<span class="tag revoked">' in page_of(browser)


def test_anothers_token_is_not_there_to_be_revoked(browser):
    token = create_token(User.objects.create_user("berta"), "hers")
    assert browser.post(f"/account/tokens/{token.record.pk}/revoke").status_code == 404
    assert authenticate_token(token.plain) is not None
    assert "hers" not in page_of(browser)


# Sessions


def test_every_browser_is_listed_and_this_one_is_marked(browser):
    signed_in("Other/2.0")
    page = page_of(browser)
    assert "Testbrowser/1.0" in page and "Other/2.0" in page
    assert page.count("this one") == 1


def test_ending_one_signs_that_browser_out_alone(browser):
    other, third = signed_in("Other/2.0"), signed_in("Third/3.0")
    browser.post(f"/account/sessions/{SignIn.objects.get(user_agent='Other/2.0').pk}/end")
    assert other.get("/account/").status_code == 302
    assert third.get("/account/").status_code == browser.get("/account/").status_code == 200
    assert AuditEntry.objects.filter(action="session.end").count() == 1


def test_ending_all_others_leaves_this_one(browser):
    others = [signed_in("Other/2.0"), signed_in("Third/3.0")]
    assert (
        "2 other browsers are signed out" in browser.post("/account/sessions/end-others", follow=True).content.decode()
    )
    assert [other.get("/account/").status_code for other in others] == [302, 302]
    assert browser.get("/account/").status_code == 200


def test_anothers_session_is_not_there_to_be_ended(browser):
    User.objects.create_user("berta", password=PASSWORD)
    hers = Client()
    hers.login(username="berta", password=PASSWORD)
    hers.get("/account/")
    sign_in = SignIn.objects.get(user__username="berta")
    assert browser.post(f"/account/sessions/{sign_in.pk}/end").status_code == 404
    assert hers.get("/account/").status_code == 200


def test_a_browser_that_signed_out_is_listed_no_more(browser):
    other = signed_in("Other/2.0")
    other.post("/accounts/logout/")
    assert "Other/2.0" not in page_of(browser)
    signed_in("Third/3.0")
    assert set(SignIn.objects.values_list("user_agent", flat=True)) == {"Testbrowser/1.0", "Third/3.0"}


def test_seen_is_noted_at_most_once_a_minute(browser, user):
    (before,) = SignIn.objects.values_list("seen_at", flat=True)
    browser.get("/")
    assert list(SignIn.objects.values_list("seen_at", flat=True)) == [before]
    SignIn.objects.update(seen_at=before - dt.timedelta(minutes=2))
    browser.get("/")
    assert SignIn.objects.get().seen_at >= before


# Password


def test_a_new_password_keeps_this_browser_and_signs_the_others_out(browser, user):
    other = signed_in("Other/2.0")
    form = {"old_password": PASSWORD, "new_password1": "another long phrase", "new_password2": "another long phrase"}
    answer = browser.post("/account/password", form)
    assert answer["Location"] == "/account/"
    assert browser.get("/account/").status_code == 200
    assert other.get("/account/").status_code == 302
    assert AuditEntry.objects.get(action="user.password").username == "anna"


@pytest.mark.parametrize(
    "form",
    [{"old_password": "wrong", "new_password1": "another long phrase", "new_password2": "another long phrase"},
     {"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}],
)  # fmt: skip
def test_a_password_that_is_refused_changes_nothing(browser, form):
    answer = browser.post("/account/password", form)
    assert answer.status_code == 200
    assert 'role="alert"' in answer.content.decode()
    assert signed_in()


# Theme and time zone


def test_the_theme_and_the_time_zone_hold_on_every_page(browser, user):
    create_token(user, "timed")
    ApiToken.objects.update(created_at=dt.datetime(2026, 1, 1, 23, 30, tzinfo=dt.UTC))
    assert "data-theme" not in page_of(browser)
    browser.post("/account/preferences", {"theme": "dark", "time_zone": "Asia/Tokyo"})
    page = page_of(browser)
    assert '<html lang="en" data-theme="dark">' in page
    assert "2026-01-02 08:30" in page
    assert 'data-theme="dark"' in browser.get("/").content.decode()


def test_anothers_choice_is_not_ones_own(browser):
    browser.post("/account/preferences", {"theme": "dark", "time_zone": "Asia/Tokyo"})
    assert "data-theme" not in Client().get("/accounts/login/").content.decode()


@pytest.mark.parametrize("form", [{"theme": "pink", "time_zone": "UTC"}, {"theme": "dark", "time_zone": "Mars/Base"},
                                  {"theme": "dark", "time_zone": "../etc/passwd"}, {}])  # fmt: skip
def test_a_choice_that_there_is_not_changes_nothing_and_says_what_there_is(browser, user, form):
    answer = browser.post("/account/preferences", form)
    assert answer.status_code == 422
    assert "allowed:" in answer.content.decode()
    user.refresh_from_db()
    assert (user.theme, user.time_zone) == ("auto", "UTC")


def test_a_zone_that_the_tables_no_longer_have_shows_utc(browser, user):
    User.objects.filter(pk=user.pk).update(time_zone="Atlantis/City")
    assert browser.get("/account/").status_code == 200


def test_time_zones_are_places_and_utc():
    assert time_zones()[0] == "UTC"
    assert "Europe/Berlin" in time_zones()
    assert not [name for name in time_zones() if name.startswith("Etc/")]


def test_hostile_headers_break_nothing(user):
    client = Client(headers={"User-Agent": "<script>alert(1)</script>" + "x" * 1000}, REMOTE_ADDR="not an address")
    client.login(username="anna", password=PASSWORD)
    page = client.get("/account/").content.decode()
    assert "<script>alert" not in page
    assert client.get("/account/").status_code == 200
