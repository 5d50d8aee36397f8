"""Sends what webhooks are to be told: at least once, with back-off, outside every transaction.

    PENDING → DELIVERED     the receiver answered 2xx
    PENDING → PENDING       it did not: again after BACKOFF_S
    PENDING → FAILED        it did not, MOST_TRIES times; MOST_FAILED such deliveries in a row switch the webhook off

A try begins by moving `next_try_at` beyond its own end, by compare-and-set: two senders don't send it at once, and what
a crash interrupts is sent again. Requests are signed as standardwebhooks.com has it: `webhook-id` is the same for every
try, `webhook-timestamp` the try's own, so a receiver can refuse repeats and old copies.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.conf import settings
from django.db import connections, transaction
from django.db.models import F, Min, Q
from django.utils import timezone

from experiments.outbound import BadAddress, NotSent, post
from experiments.webhook_models import DeliveryState, Webhook, WebhookDelivery
from labsite.accounts.audit import record

log = logging.getLogger(__name__)

BACKOFF_S = (10, 30, 120, 600, 1800, 3600, 3 * 3600)
MOST_TRIES = len(BACKOFF_S) + 1
MOST_FAILED = 3
# Longer than a try can last.
TRY_S = 60
WEBHOOKS_A_ROUND = 32
# Of one webhook in a round, so that a slow receiver with much to hear holds up no other.
TRIES_A_ROUND = 4
SENDERS = 8
KEPT = dt.timedelta(days=30)
ERROR_LENGTH = 300

SECRET_PREFIX = "whsec_"


@dataclass(frozen=True)
class Outcome:
    """`status` None: there was no answer, and `error` says why."""

    status: int | None
    error: str = ""

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


_sending = threading.Lock()


def start_sending() -> None:
    """Sends what is due in a thread of its own, so that whoever calls need not wait. One such thread a process."""
    if _due(timezone.now()):
        threading.Thread(target=_send_all, name="webhooks", daemon=True).start()


def _send_all() -> None:
    if not _sending.acquire(blocking=False):
        return
    try:
        while send_due():
            pass
    except Exception:
        # The next beat of the schedule tries again; a thread has nobody to raise to.
        log.exception("webhooks could not be sent")
    finally:
        connections.close_all()
        _sending.release()


def send_due(now: dt.datetime | None = None) -> int:
    """One round: the oldest due deliveries of each webhook, several receivers at a time. Says how many it tried."""
    claimed = [delivery for delivery in _due(now or timezone.now()) if _claim(delivery)]
    if not claimed:
        return 0
    with ThreadPoolExecutor(SENDERS, thread_name_prefix="webhook") as pool:
        # The threads touch no database: a delivery comes with its webhook.
        for delivery, outcome in zip(claimed, pool.map(send, claimed), strict=True):
            _conclude(delivery, outcome)
    return len(claimed)


def _due(now: dt.datetime) -> list[WebhookDelivery]:
    pending = WebhookDelivery.objects.filter(state=DeliveryState.PENDING, next_try_at__lte=now)
    # What a webhook that is switched off has not heard waits for it; a test is sent all the same.
    pending = pending.filter(Q(webhook__active=True) | Q(event="webhook.test"))
    longest = pending.values("webhook_id").annotate(first=Min("next_try_at")).order_by("first")
    found: list[WebhookDelivery] = []
    for row in longest[:WEBHOOKS_A_ROUND]:
        rows = pending.filter(webhook_id=row["webhook_id"]).select_related("webhook__project")
        found += rows.order_by("next_try_at", "pk")[:TRIES_A_ROUND]
    return found


def _claim(delivery: WebhookDelivery) -> bool:
    """True for one of several senders."""
    seen = WebhookDelivery.objects.filter(
        pk=delivery.pk, state=DeliveryState.PENDING, attempts=delivery.attempts, next_try_at=delivery.next_try_at
    )
    again = timezone.now() + dt.timedelta(seconds=TRY_S)
    claimed = seen.update(attempts=F("attempts") + 1, next_try_at=again)
    delivery.attempts += 1
    return bool(claimed)


def send(delivery: WebhookDelivery) -> Outcome:
    """One try. Never raises: whatever goes wrong is the delivery's outcome."""
    body = json.dumps({"id": delivery_id(delivery), **delivery.payload}).encode()
    try:
        headers = signed_headers(delivery, body, timezone.now())
        return Outcome(post(delivery.webhook.url, body, headers, private=settings.LAB_WEBHOOK_PRIVATE))
    except (BadAddress, NotSent) as error:
        return Outcome(None, str(error)[:ERROR_LENGTH])
    except Exception as error:
        log.exception("delivery %s could not be tried", delivery.pk)
        return Outcome(None, f"{type(error).__name__}: the lab's log says more")


def delivery_id(delivery: WebhookDelivery) -> str:
    return f"msg_{delivery.pk}"


def signed_headers(delivery: WebhookDelivery, body: bytes, at: dt.datetime) -> dict[str, str]:
    """The signature is of `<id>.<timestamp>.<body>`."""
    seconds = str(int(at.timestamp()))
    key = base64.b64decode(delivery.webhook.secret.removeprefix(SECRET_PREFIX))
    signed = f"{delivery_id(delivery)}.{seconds}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "Content-Type": "application/json",
        "User-Agent": "inference-lab",
        "webhook-id": delivery_id(delivery),
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{signature}",
    }


def _conclude(delivery: WebhookDelivery, outcome: Outcome) -> None:
    now = timezone.now()
    mine = WebhookDelivery.objects.filter(pk=delivery.pk, state=DeliveryState.PENDING, attempts=delivery.attempts)
    error = outcome.error or ("" if outcome.taken else f"the receiver answered {outcome.status}")
    if outcome.taken:
        mine.update(
            state=DeliveryState.DELIVERED, delivered_at=now, next_try_at=None, response_status=outcome.status, error=""
        )
    elif delivery.attempts < MOST_TRIES:
        again = now + dt.timedelta(seconds=BACKOFF_S[delivery.attempts - 1])
        mine.update(next_try_at=again, response_status=outcome.status, error=error)
    elif mine.update(state=DeliveryState.FAILED, next_try_at=None, response_status=outcome.status, error=error):
        _switch_off_if_dead(delivery.webhook)


@transaction.atomic
def _switch_off_if_dead(webhook: Webhook) -> None:
    concluded = WebhookDelivery.objects.filter(webhook=webhook).exclude(state=DeliveryState.PENDING).order_by("-pk")
    states = list(concluded.values_list("state", flat=True)[:MOST_FAILED])
    dead = len(states) == MOST_FAILED and set(states) == {DeliveryState.FAILED}
    if dead and Webhook.objects.filter(pk=webhook.pk, active=True).update(active=False):
        record(None, "webhook.switch_off", webhook, reason=f"{MOST_FAILED} deliveries in a row failed for good")
        log.warning("webhook %s is switched off: %s deliveries in a row failed", webhook.pk, MOST_FAILED)


def forget_deliveries(now: dt.datetime | None = None) -> int:
    """Drops what is old; says how many."""
    return WebhookDelivery.objects.filter(created_at__lt=(now or timezone.now()) - KEPT).delete()[0]
