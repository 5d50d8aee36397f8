"""Webhooks of a project: made, changed, tried and removed by its operators. What they are told is in webhook_events."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence

from django.conf import settings
from django.db import transaction

from experiments.errors import BadParameter, WrongState
from experiments.outbound import BadAddress, check_address
from experiments.services.webhook_events import EVENTS, tell_test
from experiments.services.webhook_sending import SECRET_PREFIX
from experiments.webhook_models import Webhook, WebhookDelivery
from labsite.accounts.audit import record
from labsite.accounts.models import Project, Role, User
from labsite.accounts.permissions import require

MOST_WEBHOOKS = 20
SECRET_BYTES = 32
URL_LENGTH = 500


def create_webhook(user: User, project: Project, url: str, events: Sequence[str]) -> Webhook:
    """A new webhook; its `secret` is to be shown now and never again. Raises AccessDenied, BadParameter, WrongState."""
    _require_operator(user, project)
    _check(url, events)
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    with transaction.atomic():
        # of two who add the last one, one waits for the other's count
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        if Webhook.objects.filter(project=project).count() >= MOST_WEBHOOKS:
            raise WrongState(f"project {project.slug} has {MOST_WEBHOOKS} webhooks, and that is the most: remove one")
        webhook = Webhook.objects.create(
            project=project, url=url, secret=secret, events=list(dict.fromkeys(events)), created_by=user
        )
        record(user, "webhook.create", webhook, events=webhook.events)
    return webhook


def change_webhook(
    user: User,
    webhook: Webhook,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    active: bool | None = None,
) -> None:
    """What is None stays. Raises AccessDenied, BadParameter."""
    _require_operator(user, webhook.project)
    _check(url, events)
    changes = {"url": url, "events": None if events is None else list(dict.fromkeys(events)), "active": active}
    given = {name: value for name, value in changes.items() if value is not None}
    with transaction.atomic():
        Webhook.objects.filter(pk=webhook.pk).update(**given)
        record(user, "webhook.change", webhook, changed=sorted(given))


@transaction.atomic
def delete_webhook(user: User, webhook: Webhook) -> None:
    """It and its deliveries, also those that are still to be sent. Raises AccessDenied."""
    _require_operator(user, webhook.project)
    record(user, "webhook.delete", webhook)
    webhook.delete()


@transaction.atomic
def try_webhook(user: User, webhook: Webhook) -> WebhookDelivery:
    """A delivery of its own, sent like any other, so that its outcome can be looked up. Raises AccessDenied."""
    _require_operator(user, webhook.project)
    record(user, "webhook.test", webhook)
    return tell_test(webhook)


def _require_operator(user: User, project: Project) -> None:
    require(user, project, Role.OPERATOR, "managing webhooks")


def _check(url: str | None, events: Sequence[str] | None) -> None:
    if url is not None:
        try:
            check_address(url, private=settings.LAB_WEBHOOK_PRIVATE)
        except BadAddress as error:
            allowed = "http:// or https://, a public host, at most 500 characters"
            raise BadParameter("url", str(error), allowed) from error
    unknown = sorted(set(events or ()) - set(EVENTS))
    if unknown or (events is not None and not events):
        message = f"no event is named {', '.join(unknown)}" if unknown else "say at least one event"
        raise BadParameter("events", message, list(EVENTS))
