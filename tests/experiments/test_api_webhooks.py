"""/api/v1/webhooks: who may, what is shown, and what is refused."""

from __future__ import annotations

import pytest
from api_client import Caller, assert_people_only, member, refused

from experiments.services.webhook_events import EVENTS
from experiments.services.webhooks import MOST_WEBHOOKS
from experiments.webhook_models import Webhook, WebhookDelivery
from labsite.accounts.models import AuditEntry, Project, Role

pytestmark = pytest.mark.django_db

GOOD = {"url": "https://hooks.example.org/lab", "events": ["run.failed", "experiment.done"]}


@pytest.fixture
def operator(project: Project) -> Caller:
    return member(project, Role.OPERATOR)


@pytest.fixture
def made(operator: Caller) -> dict[str, object]:
    response = operator.post("/webhooks", GOOD)
    assert response.status_code == 201, response.content
    created: dict[str, object] = response.json()
    return created


def patch(caller: Caller, path: str, body: object) -> object:
    return caller._client.patch(
        f"/api/v1{path}", data=body, content_type="application/json", headers=caller._headers({})
    )


def test_only_people_with_a_token_may(made: dict[str, object]) -> None:
    for method, path in [("GET", ""), ("POST", ""), ("GET", "/1"), ("PATCH", "/1"), ("DELETE", "/1"),
                         ("POST", "/1/test"), ("GET", "/1/deliveries")]:  # fmt: skip
        assert_people_only(method, f"/webhooks{path}")


def test_the_secret_is_shown_once(operator: Caller, made: dict[str, object]) -> None:
    assert str(made["secret"]).startswith("whsec_")
    shown = operator.get(f"/webhooks/{made['id']}").json()
    assert "secret" not in shown
    assert (shown["url"], shown["events"], shown["active"]) == (GOOD["url"], GOOD["events"], True)
    (listed,) = operator.get("/webhooks").json()["items"]
    assert listed == shown


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_a_lower_role_neither_sees_nor_makes_any(project: Project, made: dict[str, object], role: Role) -> None:
    caller = member(project, role)
    refused(caller.post("/webhooks", GOOD), 403)
    refused(caller.get(f"/webhooks/{made['id']}"), 403)
    refused(caller.get(f"/webhooks/{made['id']}/deliveries"), 403)
    refused(caller.post(f"/webhooks/{made['id']}/test"), 403)
    refused(caller.call("DELETE", f"/webhooks/{made['id']}"), 403)
    refused(patch(caller, f"/webhooks/{made['id']}", {"active": False}), 403)  # type: ignore[arg-type]
    assert caller.get("/webhooks").json()["items"] == []


def test_one_of_another_project_is_not_there(made: dict[str, object]) -> None:
    stranger = member(role=Role.ADMIN)
    refused(stranger.get(f"/webhooks/{made['id']}"), 404)
    refused(stranger.call("DELETE", f"/webhooks/{made['id']}"), 404)
    assert stranger.get("/webhooks").json()["items"] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "url"),
        ({"url": "gopher://example.org"}, "url"),
        ({"url": "x" * 501}, "url"),
        ({"url": 5}, "url"),
        ({"events": []}, "events"),
        ({"events": ["run.failed", "run.unknown"]}, "events"),
        ({"secret": "mine"}, "secret"),
    ],
)
def test_a_bad_field_is_named(operator: Caller, change: dict[str, object], field: str) -> None:
    (fault,) = refused(operator.post("/webhooks", GOOD | change), 422)["errors"]
    assert fault["field"] == field
    assert not Webhook.objects.exists()


def test_an_unknown_event_is_answered_with_those_there_are(operator: Caller) -> None:
    (fault,) = refused(operator.post("/webhooks", GOOD | {"events": ["nothing"]}), 422)["errors"]
    assert fault["allowed"] == list(EVENTS)


def test_it_is_changed_in_part_and_removed_with_its_deliveries(operator: Caller, made: dict[str, object]) -> None:
    path = f"/webhooks/{made['id']}"
    changed = patch(operator, path, {"active": False}).json()  # type: ignore[attr-defined]
    assert (changed["active"], changed["url"]) == (False, GOOD["url"])
    refused(patch(operator, path, {"url": "http://10.0.0.1/"}), 422)  # type: ignore[arg-type]
    assert operator.post(f"{path}/test").status_code == 202
    assert operator.call("DELETE", path).status_code == 204
    refused(operator.get(path), 404)
    assert not WebhookDelivery.objects.exists()
    actions = AuditEntry.objects.filter(object_type="webhook").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["webhook.create", "webhook.change", "webhook.test", "webhook.delete"]


def test_a_test_is_among_the_deliveries(operator: Caller, made: dict[str, object]) -> None:
    sent = operator.post(f"/webhooks/{made['id']}/test").json()
    assert (sent["event"], sent["state"], sent["attempts"]) == ("webhook.test", "pending", 0)
    assert operator.get(f"/webhooks/{made['id']}/deliveries?state=pending").json() == {"items": [sent], "next": None}
    assert operator.get(f"/webhooks/{made['id']}/deliveries?state=failed").json()["items"] == []


def test_a_project_has_no_more_than_it_can_oversee(operator: Caller, project: Project) -> None:
    Webhook.objects.bulk_create(
        Webhook(project=project, url="http://a.example", secret="s") for _ in range(MOST_WEBHOOKS)
    )
    assert str(MOST_WEBHOOKS) in refused(operator.post("/webhooks", GOOD), 409)["detail"]


def test_they_are_listed_page_by_page(operator: Caller, project: Project) -> None:
    Webhook.objects.bulk_create(Webhook(project=project, url="http://a.example", secret="s") for _ in range(5))
    first = operator.get("/webhooks?limit=3").json()
    second = operator.get(f"/webhooks?limit=3&cursor={first['next']}").json()
    ids = [item["id"] for item in first["items"] + second["items"]]
    assert (len(ids), ids, second["next"]) == (5, sorted(ids, reverse=True), None)
