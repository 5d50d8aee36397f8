"""Deliveries are signed, sent at least once, tried again with back-off, and given up in the end."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest
from control_plane import team
from django.conf import LazySettings
from django.utils import timezone
from node_events import until
from receiver import Receiver, receiver

from experiments.services import webhook_sending
from experiments.services.webhook_events import tell_test
from experiments.services.webhook_sending import (
    BACKOFF_S,
    MOST_FAILED,
    MOST_TRIES,
    TRIES_A_ROUND,
    forget_deliveries,
    send_due,
    start_sending,
)
from experiments.webhook_models import Webhook, WebhookDelivery
from labsite.accounts.models import AuditEntry

pytestmark = pytest.mark.django_db

KEY = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def told(settings: LazySettings) -> Iterator[Receiver]:
    settings.LAB_WEBHOOK_PRIVATE = True
    with receiver() as running:
        yield running


@pytest.fixture
def webhook(told: Receiver) -> Webhook:
    return hook(told.url)


def hook(url: str) -> Webhook:
    secret = f"whsec_{base64.b64encode(KEY).decode()}"
    return Webhook.objects.create(project=team(), url=url, secret=secret, events=["run.failed"])


def event(webhook: Webhook, number: int = 0, **fields: Any) -> WebhookDelivery:
    return WebhookDelivery.objects.create(
        webhook=webhook,
        event="run.failed",
        key=f"run.failed:{number}",
        payload={"type": "run.failed", "data": {"run": number}},
        next_try_at=timezone.now(),
        **fields,
    )


def again(delivery: WebhookDelivery) -> WebhookDelivery:
    delivery.refresh_from_db()
    return delivery


def make_due(*deliveries: WebhookDelivery) -> None:
    pks = [delivery.pk for delivery in deliveries]
    WebhookDelivery.objects.filter(pk__in=pks, state="pending").update(next_try_at=timezone.now())


def test_a_delivery_is_signed_as_receivers_check_it(webhook: Webhook, told: Receiver) -> None:
    delivery = event(webhook)
    assert send_due() == 1
    ((headers, body),) = told.got
    assert json.loads(body) == {"id": f"msg_{delivery.pk}", "type": "run.failed", "data": {"run": 0}}
    assert headers["content-type"] == "application/json"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    done = again(delivery)
    assert (done.state, done.response_status, done.attempts, done.next_try_at) == ("delivered", 204, 1, None)
    assert done.delivered_at is not None
    assert send_due() == 0


def test_what_is_refused_comes_again_later_under_the_same_id(webhook: Webhook, told: Receiver) -> None:
    told.statuses = [500, 200]
    delivery = event(webhook)
    send_due()
    waiting = again(delivery)
    assert (waiting.state, waiting.response_status, waiting.error) == ("pending", 500, "the receiver answered 500")
    assert waiting.next_try_at is not None
    assert waiting.next_try_at > timezone.now() + dt.timedelta(seconds=BACKOFF_S[0] - 5)
    assert send_due() == 0
    make_due(delivery)
    send_due()
    assert again(delivery).state == "delivered"
    assert len({headers["webhook-id"] for headers, _ in told.got}) == 1


def test_it_fails_for_good_after_the_last_try(webhook: Webhook, told: Receiver) -> None:
    told.statuses = [302]
    delivery = event(webhook, attempts=MOST_TRIES - 1)
    send_due()
    failed = again(delivery)
    assert (failed.state, failed.attempts, failed.next_try_at) == ("failed", MOST_TRIES, None)
    webhook.refresh_from_db()
    assert webhook.active


def test_a_webhook_that_takes_nothing_is_switched_off_and_that_is_noted(webhook: Webhook, told: Receiver) -> None:
    told.statuses = [404]
    for number in range(MOST_FAILED):
        event(webhook, number, attempts=MOST_TRIES - 1)
    waiting = event(webhook, 99, attempts=2)
    send_due()
    webhook.refresh_from_db()
    assert not webhook.active
    assert AuditEntry.objects.get(action="webhook.switch_off").object_id == str(webhook.pk)
    make_due(waiting)
    test = tell_test(webhook)
    assert send_due() == 1
    assert again(test).attempts == 1


def test_a_private_receiver_is_not_reached_unless_the_lab_allows_it(
    webhook: Webhook, told: Receiver, settings: LazySettings
) -> None:
    settings.LAB_WEBHOOK_PRIVATE = False
    delivery = event(webhook)
    send_due()
    assert told.got == []
    assert "not a public address" in again(delivery).error


def test_two_senders_do_not_send_the_same(webhook: Webhook, told: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    event(webhook)
    seen_by_both = webhook_sending._due(timezone.now())
    assert send_due() == 1
    monkeypatch.setattr(webhook_sending, "_due", lambda now: seen_by_both)
    assert send_due() == 0
    assert len(told.got) == 1


def test_a_try_that_a_crash_cut_short_is_made_again(webhook: Webhook, told: Receiver) -> None:
    delivery = event(webhook)
    (claimed,) = webhook_sending._due(timezone.now())
    assert webhook_sending._claim(claimed)
    assert send_due() == 0
    assert send_due(timezone.now() + dt.timedelta(seconds=webhook_sending.TRY_S + 1)) == 1
    assert again(delivery).state == "delivered"


def test_one_with_much_to_hear_holds_up_no_other(webhook: Webhook, told: Receiver) -> None:
    for number in range(3 * TRIES_A_ROUND):
        event(webhook, number)
    other = event(hook(told.url))
    assert send_due() == TRIES_A_ROUND + 1
    assert again(other).state == "delivered"


def test_a_delivery_that_can_not_even_be_signed_stops_nobody(webhook: Webhook, told: Receiver) -> None:
    broken, other = event(hook(told.url)), event(webhook)
    Webhook.objects.filter(pk=broken.webhook_id).update(secret="whsec_x")
    assert send_due() == 2
    assert (again(broken).state, again(other).state) == ("pending", "delivered")
    assert "log says more" in broken.error


@pytest.mark.django_db(transaction=True)
def test_the_control_worker_does_not_wait_for_receivers(webhook: Webhook, told: Receiver) -> None:
    deliveries = [event(webhook, number) for number in range(2 * TRIES_A_ROUND)]
    start_sending()
    start_sending()
    until(lambda: all(again(delivery).state == "delivered" for delivery in deliveries))
    until(lambda: not webhook_sending._sending.locked())
    assert len(told.got) == len(deliveries)


def test_old_deliveries_are_forgotten(webhook: Webhook) -> None:
    kept, old = event(webhook, 1), event(webhook, 2)
    WebhookDelivery.objects.filter(pk=old.pk).update(created_at=timezone.now() - dt.timedelta(days=31))
    assert forget_deliveries() == 1
    assert list(WebhookDelivery.objects.all()) == [kept]
