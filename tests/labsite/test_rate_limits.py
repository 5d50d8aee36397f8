"""Whoever asks too often is told so, and when to try again; others are served meanwhile, and all without a broker."""

from __future__ import annotations

import datetime as dt
import logging

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from limits import parse

from hardware.models import Node
from hardware.services import register_node
from hardware.services.registration import digest_of
from labsite.accounts.models import ApiToken, User
from labsite.accounts.tokens import create_token
from labsite.rate_limits import DEFAULTS, chosen_limits

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def two_an_hour(unlimited: None, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So long a window that none ends while a test runs, however slow the machine."""
    monkeypatch.setattr(settings, "RATE_LIMITS", {name: parse("2/hour") for name in DEFAULTS})


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def caller(user: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_token(user, 'test').plain}"})


def statuses(client: Client, path: str = "/api/v1/me", times: int = 3) -> list[int]:
    return [client.get(path).status_code for _ in range(times)]


def test_the_answer_says_how_many_are_left(ada: User) -> None:
    client = caller(ada)
    first, second = client.get("/api/v1/me"), client.get("/api/v1/me")
    assert first["RateLimit-Policy"] == '"user";q=2;w=3600'
    assert first["RateLimit"].startswith('"user";r=1;t=')
    assert second["RateLimit"].startswith('"user";r=0;t=')
    assert "Retry-After" not in second


def test_one_too_many_is_refused_in_the_one_shape_with_the_time_to_wait(ada: User) -> None:
    client = caller(ada)
    assert statuses(client) == [200, 200, 429]
    refused = client.get("/api/v1/me")
    assert 0 < int(refused["Retry-After"]) <= 3600
    assert set(refused.json()) == {"detail", "errors"}
    assert "at most 2 in 3600 s" in refused.json()["detail"]


def test_a_refused_request_does_nothing(ada: User) -> None:
    client = caller(ada)
    statuses(client)
    assert client.post("/api/v1/tokens", {"name": "x"}, content_type="application/json").status_code == 429
    assert ApiToken.objects.count() == 1


def test_all_tokens_and_sessions_of_a_person_count_together_and_others_apart(ada: User) -> None:
    session = Client()
    session.force_login(ada)
    assert [statuses(client, times=1) for client in (caller(ada), session, caller(ada))] == [[200], [200], [429]]
    assert statuses(caller(User.objects.create_user("bob")), times=2) == [200, 200]


def test_strangers_are_counted_by_address_whatever_they_call_themselves() -> None:
    for number, expected in enumerate([401, 401, 429]):
        client = Client(REMOTE_ADDR="192.0.2.1", headers={"Authorization": f"Bearer lab_{number}"})
        assert client.get("/api/v1/me").status_code == expected
    assert Client(REMOTE_ADDR="192.0.2.2").get("/api/v1/me").status_code == 401


def test_a_person_is_served_where_strangers_at_his_address_are_not(ada: User) -> None:
    assert statuses(Client()) == [401, 401, 429]
    assert statuses(caller(ada), times=1) == [200]


def test_nodes_have_a_limit_of_their_own(ada: User) -> None:
    node = register_node("bench", kind="measured")
    Node.objects.filter(pk=node.pk).update(api_digest=digest_of("node_1"))
    client = Client(headers={"Authorization": "Bearer node_1"})
    answers = [client.post("/api/v1/node/heartbeat", {}, content_type="application/json") for _ in range(3)]
    assert [answer.status_code == 429 for answer in answers] == [False, False, True]
    assert answers[0]["RateLimit-Policy"].startswith('"node";')
    assert statuses(caller(ada), times=1) == [200]


def test_pages_are_not_counted(ada: User) -> None:
    client = Client()
    client.force_login(ada)
    assert all(client.get("/accounts/login/").status_code != 429 for _ in range(4))


def sign_in(password: str, address: str = "192.0.2.1", name: str = "ada") -> int:
    return Client(REMOTE_ADDR=address).post(LOGIN, {"username": name, "password": password}).status_code


@pytest.fixture
def only_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "RATE_LIMITS", {"sign_in_name": parse("2/hour")})


def test_guessing_a_password_is_slowed_down_even_for_the_right_guess(ada: User, only_names: None) -> None:
    assert [sign_in(guess) for guess in ("one", "two", PASSWORD)] == [200, 200, 429]
    assert sign_in(PASSWORD, address="192.0.2.2") == 302, "a stranger must not lock the owner out"


def test_who_signs_in_begins_anew(ada: User, only_names: None) -> None:
    assert [sign_in(guess) for guess in ("one", PASSWORD, "one", PASSWORD)] == [200, 302, 200, 302]


def test_guessing_through_many_names_is_slowed_down(ada: User) -> None:
    assert [sign_in("guess", name=name) for name in ("a", "b", "c")] == [200, 200, 429]


def test_the_refusal_to_sign_in_is_a_page_with_the_time_to_wait() -> None:
    client = Client()
    answers = [client.post(LOGIN, {"username": "a", "password": "b"}) for _ in range(3)]
    assert answers[2].status_code == 429 and answers[2].has_header("Retry-After")
    assert "Too many attempts" in answers[2].content.decode()


def test_without_a_broker_everything_is_allowed_and_logged(
    ada: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    with caplog.at_level(logging.WARNING, "labsite.rate_limits"):
        assert statuses(caller(ada), times=4) == [200] * 4
    assert "the broker does not answer" in caplog.text


def test_the_limits_are_the_defaults_but_for_what_the_text_says() -> None:
    chosen = chosen_limits("user=5/second, anonymous=off")
    assert chosen["user"] == parse("5/second")
    assert "anonymous" not in chosen
    assert chosen["node"] == parse(DEFAULTS["node"])
    assert chosen_limits("off") == {} and set(chosen_limits("")) == set(DEFAULTS)


@pytest.mark.parametrize("text", ["user", "user=", "users=1/minute", "user=fast", "user=1/fortnight", "=1/minute"])
def test_a_text_that_says_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="allowed"):
        chosen_limits(text)


def test_an_expired_token_counts_as_a_stranger(ada: User) -> None:
    client = caller(ada)
    ApiToken.objects.update(expires_at=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    assert client.get("/api/v1/me")["RateLimit-Policy"].startswith('"anonymous";')
