"""REST for webhooks: what a project's operators have the lab tell other systems, and how each delivery went."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from experiments import selectors, services
from experiments.api.auth import person
from experiments.api.paging import PageQuery, read_page
from experiments.api.schemas import CLONE_ERRORS, CONTROL_ERRORS, PageOut, StrictBody
from experiments.services.webhook_events import EVENTS
from experiments.services.webhook_sending import delivery_id
from experiments.services.webhooks import URL_LENGTH
from experiments.webhook_models import DeliveryState, Webhook, WebhookDelivery
from labsite.accounts.models import Role, User
from labsite.accounts.permissions import projects_of, require
from labsite.error_body import ErrorBody

router = Router(tags=["webhooks"])

CREATE_ERRORS = CLONE_ERRORS
DESCRIPTION = f"""The lab sends `POST` with a JSON body `{{"id", "type", "timestamp", "data"}}`, signed as
standardwebhooks.com describes: `webhook-signature` is `v1,` and the base64 of the HMAC-SHA-256 of
`<webhook-id>.<webhook-timestamp>.<body>` under the secret's bytes (base64 after `whsec_`). A delivery may come more
than once, always with the same `webhook-id`; refuse an old `webhook-timestamp`. Any 2xx within 8 s is taken for
received; else it is sent again, 8 times in about five hours; 3 deliveries in a row that failed for good switch the
webhook off. Redirects are not followed, and private addresses are refused. Events: {", ".join(EVENTS)}."""

# What the services check, and answer with more than a schema could say, is in the published schema all the same.
URL_SCHEMA: dict[str, Any] = {"format": "uri", "pattern": "^https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[!-~]*)?$"}
EVENTS_SCHEMA: dict[str, Any] = {"items": {"type": "string", "enum": list(EVENTS)}, "minItems": 1}
URL = Field(max_length=URL_LENGTH, description="http or https, with a public host.", json_schema_extra=URL_SCHEMA)
EVENT_LIST = Field(max_length=2 * len(EVENTS), json_schema_extra=EVENTS_SCHEMA)


class WebhookIn(StrictBody):
    url: str = URL
    events: list[str] = EVENT_LIST
    project: str | None = Field(None, max_length=60, description="Slug; may be left out by who has one project.")


class WebhookEdit(StrictBody):
    """What is left out stays as it is."""

    url: str | None = Field(None, max_length=URL_LENGTH)
    events: list[str] | None = Field(None, max_length=2 * len(EVENTS))
    active: bool | None = None


class WebhookOut(Schema):
    id: int
    project: str
    url: str
    events: list[str]
    active: bool
    created_by: str | None
    created_at: datetime


class NewWebhookOut(WebhookOut):
    secret: str = Field(description="Shown this once.")


class DeliveryOut(Schema):
    id: str = Field(description="The `webhook-id` that the receiver sees.")
    event: str
    state: str
    attempts: int
    next_try_at: datetime | None
    response_status: int | None
    error: str
    created_at: datetime
    delivered_at: datetime | None
    payload: dict[str, Any]


class WebhookPage(PageOut):
    items: list[WebhookOut]


class DeliveryPage(PageOut):
    items: list[DeliveryOut]


class WebhookQuery(PageQuery):
    sort: Literal["created_at", "-created_at"] = "-created_at"
    project: Annotated[str, Field(max_length=60, pattern=r"^[^\x00]*$")] | None = None
    active: bool | None = None


class DeliveryQuery(PageQuery):
    sort: Literal["created_at", "-created_at"] = "-created_at"
    state: DeliveryState | None = None


@router.get(
    "/webhooks",
    response={200: WebhookPage, CONTROL_ERRORS: ErrorBody},
    summary="List those of the projects that you operate",
    description=DESCRIPTION,
)
def list_webhooks(request: HttpRequest, asked: Query[WebhookQuery]) -> WebhookPage:
    operated = projects_of(person(request), Role.OPERATOR).values("pk")
    rows = _webhooks().filter(project__in=operated)
    if asked.project is not None:
        rows = rows.filter(project__slug=asked.project)
    if asked.active is not None:
        rows = rows.filter(active=asked.active)
    page = read_page(rows, {"created_at": "pk"}, asked)
    return WebhookPage(items=[WebhookOut(**_fields(webhook)) for webhook in page.items], next=page.next)


@router.post("/webhooks", response={201: NewWebhookOut, CREATE_ERRORS: ErrorBody}, summary="Add a webhook")
def create(request: HttpRequest, body: WebhookIn) -> Status[NewWebhookOut]:
    user = person(request)
    project = selectors.get_project(user, body.project)
    webhook = services.create_webhook(user, project, body.url, body.events)
    return Status(201, NewWebhookOut(**_fields(webhook), secret=webhook.secret))


@router.get("/webhooks/{int:webhook_id}", response={200: WebhookOut, CONTROL_ERRORS: ErrorBody}, summary="Read")
def read(request: HttpRequest, webhook_id: int) -> WebhookOut:
    return WebhookOut(**_fields(_webhook(person(request), webhook_id)))


@router.patch("/webhooks/{int:webhook_id}", response={200: WebhookOut, CREATE_ERRORS: ErrorBody}, summary="Change")
def change(request: HttpRequest, webhook_id: int, body: WebhookEdit) -> WebhookOut:
    user = person(request)
    webhook = _webhook(user, webhook_id)
    services.change_webhook(user, webhook, url=body.url, events=body.events, active=body.active)
    return WebhookOut(**_fields(_webhook(user, webhook_id)))


@router.delete("/webhooks/{int:webhook_id}", response={204: None, CONTROL_ERRORS: ErrorBody}, summary="Remove")
def delete(request: HttpRequest, webhook_id: int) -> Status[None]:
    user = person(request)
    services.delete_webhook(user, _webhook(user, webhook_id))
    return Status(204, None)


@router.post(
    "/webhooks/{int:webhook_id}/test",
    response={202: DeliveryOut, CONTROL_ERRORS: ErrorBody},
    summary="Send it a test",
    description="The delivery is sent within seconds; its outcome is among the webhook's deliveries.",
)
def test(request: HttpRequest, webhook_id: int) -> Status[DeliveryOut]:
    user = person(request)
    return Status(202, _delivery(services.try_webhook(user, _webhook(user, webhook_id))))


@router.get(
    "/webhooks/{int:webhook_id}/deliveries",
    response={200: DeliveryPage, CONTROL_ERRORS: ErrorBody},
    summary="What it was told, and how that went; kept for 30 days",
)
def list_deliveries(request: HttpRequest, webhook_id: int, asked: Query[DeliveryQuery]) -> DeliveryPage:
    rows = WebhookDelivery.objects.filter(webhook=_webhook(person(request), webhook_id))
    if asked.state is not None:
        rows = rows.filter(state=asked.state)
    page = read_page(rows, {"created_at": "pk"}, asked)
    return DeliveryPage(items=[_delivery(delivery) for delivery in page.items], next=page.next)


def _webhooks() -> QuerySet[Webhook]:
    return Webhook.objects.select_related("project", "created_by")


def _webhook(user: User, webhook_id: int) -> Webhook:
    """Raises Webhook.DoesNotExist, NotAMember, RoleTooLow: its address may hold a secret of the receiver's."""
    webhook = _webhooks().get(pk=webhook_id)
    require(user, webhook.project, Role.OPERATOR, "seeing webhooks")
    return webhook


def _fields(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.pk,
        "project": webhook.project.slug,
        "url": webhook.url,
        "events": webhook.events,
        "active": webhook.active,
        "created_by": webhook.created_by.get_username() if webhook.created_by else None,
        "created_at": webhook.created_at,
    }


def _delivery(delivery: WebhookDelivery) -> DeliveryOut:
    return DeliveryOut(
        id=delivery_id(delivery),
        event=delivery.event,
        state=delivery.state,
        attempts=delivery.attempts,
        next_try_at=delivery.next_try_at,
        response_status=delivery.response_status,
        error=delivery.error,
        created_at=delivery.created_at,
        delivered_at=delivery.delivered_at,
        payload=delivery.payload,
    )
