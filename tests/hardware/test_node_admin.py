"""The admin of nodes: registering, watching, and the actions, each by role."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from hardware.messages import JoinRequest
from hardware.models import Chip, JoinToken, Node
from hardware.services import issue_join_token, join, register_node
from labsite.accounts.models import Membership, Project, Role, User

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]
LIST, ADD = reverse("admin:hardware_node_changelist"), reverse("admin:hardware_node_add")


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="One", slug="one")


@pytest.fixture
def operator(project: Project) -> Client:
    user = User.objects.create_user("operator")
    Membership.objects.create(user=user, project=project, role=Role.OPERATOR)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def register(client: Client, **fields: Any) -> str:
    """The page that follows on the form."""
    body = {"name": "Alpha", "project": "", "kind": "measured", "chip": "", "labels": "{}", "usd_per_hour": ""}
    return client.post(ADD, body | fields, follow=True).content.decode()


def act(client: Client, action: str, *nodes: Node, confirmed: bool = True) -> str:
    body = {"action": action, "_selected_action": [node.pk for node in nodes]}
    return client.post(LIST, body | ({"confirmed": "yes"} if confirmed else {}), follow=True).content.decode()


def join_command(page: str) -> str | None:
    """The token in the command that the page shows."""
    found = re.search(r"<code>inference-lab-node join http://testserver --token (join_\S+)</code>", page)
    return found[1] if found else None


def test_registering_shows_the_join_command_once_and_it_joins(operator: Client, project: Project) -> None:
    labels = '{"rack": "a"}'
    token = join_command(register(operator, project=project.pk, labels=labels, usd_per_hour="0.5"))
    node = Node.objects.get()
    assert (node.slug, node.project, node.labels, node.usd_per_hour) == ("alpha", project, {"rack": "a"}, 0.5)
    assert token is not None
    assert token not in operator.get(LIST).content.decode()
    assert join(JoinRequest(token=token)).node == "alpha"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"labels": '{"kind": "mine"}'}, "every node has this label"),
        ({"labels": '{"rack": {"row": 1}}'}, "is not a label"),
        ({"labels": '["a"]'}, "is not a mapping"),
        ({"labels": "{"}, "valid JSON"),
        ({"usd_per_hour": "-1"}, "0 or more"),
        ({"kind": "modelled"}, "needs the chip"),
        ({"pools": '[{"chip": "c", "count": 1}]'}, "pools.0.chip: no chip &#x27;c&#x27; in the catalog"),
        ({"pools": '[{"chip": "any", "count": 1}]'}, "a measured node has the chip that is in it"),
        ({"pools": "["}, "valid JSON"),
        ({"kind": "imaginary"}, "Select a valid choice"),
        ({"name": "!!!"}, "no letter or digit"),
        ({"name": "TAKEN"}, "already"),
        ({"project": ""}, "required"),
    ],
)
def test_a_bad_form_is_refused_with_the_reason(
    operator: Client, project: Project, fields: dict[str, str], message: str
) -> None:
    register_node("taken", kind="measured", project=project)
    page = register(operator, **{"project": project.pk, **fields})
    assert message in page
    assert Node.objects.count() == 1 and not JoinToken.objects.exists()


def test_an_empty_field_of_labels_is_no_label(operator: Client, project: Project) -> None:
    register(operator, project=project.pk, labels="")
    assert Node.objects.get().labels == {}


def test_an_operator_gives_a_node_to_his_own_projects_alone(operator: Client) -> None:
    other = Project.objects.create(name="Two", slug="two")
    assert "Select a valid choice" in register(operator, project=other.pk)
    assert not Node.objects.exists()


def test_a_superuser_gives_a_node_to_every_project(root: Client) -> None:
    Chip.objects.create(chip_id="c", name="C", vendor="v", kind="gpu", record={"chip_id": "c"})
    register(root, kind="modelled", chip=Chip.objects.get().pk)
    assert (Node.objects.get().project, Node.objects.get().kind) == (None, "modelled")


def _chips(*chip_ids: str) -> list[Chip]:
    kept = {"vendor": "v", "kind": "gpu"}
    return [Chip.objects.create(chip_id=one, name=one, record={"chip_id": one}, **kept) for one in chip_ids]


def test_a_modelled_node_is_given_pools_and_links_and_they_can_be_changed(root: Client) -> None:
    own, _ = _chips("c", "d")
    pools, link = '[{"chip": "d", "count": 16}]', '{"between": ["c", "d"], "bytes_per_s": 5e10, "latency_s": 1e-6}'
    register(root, kind="modelled", chip=own.pk, pools=pools, links=f"[{link}]")
    node = Node.objects.get()
    assert node.offers() == {"c": 1024, "d": 16}
    assert node.links == [{"between": ["c", "d"], "bytes_per_s": 5e10, "latency_s": 1e-6}]
    url = reverse("admin:hardware_node_change", args=[node.pk])
    body = {"name": "Alpha", "project": "", "chip": own.pk, "labels": "{}", "pools": '[{"chip": "c", "count": 2}]'}
    assert root.post(url, body | {"links": ""}).status_code == 302
    node.refresh_from_db()
    assert (node.offers(), node.links) == ({"c": 2}, [])


def test_a_link_to_a_chip_that_the_node_does_not_offer_is_refused(root: Client) -> None:
    own, _ = _chips("c", "d")
    page = register(root, kind="modelled", chip=own.pk, links='[{"between": ["c", "d"], "bytes_per_s": 5e10}]')
    assert "links.0.between: the node offers no &#x27;d&#x27; (allowed: c)" in page
    assert not Node.objects.exists()


@pytest.mark.parametrize("text", ["[" * 100_000, '[{"between": ["c", "c"], "bytes_per_s": 1' + "0" * 5000 + "}]"])
@pytest.mark.parametrize("field", ["pools", "links", "labels"])
def test_json_too_deep_or_too_long_to_be_read_is_refused_at_its_field(root: Client, field: str, text: str) -> None:
    (own,) = _chips("c")
    assert "Enter a valid JSON." in register(root, kind="modelled", chip=own.pk, **{field: text})
    assert not Node.objects.exists()


def test_a_link_in_other_units_is_refused_with_the_unit(root: Client) -> None:
    own, _ = _chips("c", "d")
    page = register(root, kind="modelled", chip=own.pk, links='[{"between": ["c", "c"], "bytes_per_s": 900}]')
    assert "links.0.bytes_per_s: 900 is no rate of a link (allowed: bytes per second" in page


def test_an_operator_sees_the_nodes_of_his_projects_alone(operator: Client, root: Client, project: Project) -> None:
    mine = register_node("mine", kind="measured", project=project)
    theirs = register_node("theirs", kind="measured", project=Project.objects.create(name="Two", slug="two"))
    shared = register_node("shared", kind="measured")
    page = operator.get(LIST).content.decode()
    assert "mine" in page and "theirs" not in page and "shared" not in page
    for node, visible in ((mine, True), (theirs, False), (shared, False)):
        url = reverse("admin:hardware_node_change", args=[node.pk])
        assert (operator.get(url).status_code == 200) is visible
        assert root.get(url).status_code == 200


def test_the_page_of_a_node_shows_what_its_agent_reported(operator: Client, project: Project) -> None:
    node = register_node("mine", kind="measured", project=project)
    Node.objects.update(
        state="online", last_seen_at=timezone.now(), facts={"chip": "A Fine CPU"}, ceilings={"bf16_flops": 12345}
    )
    page = operator.get(reverse("admin:hardware_node_change", args=[node.pk])).content.decode()
    for shown in ("A Fine CPU", "12345", "Online", "s ago"):
        assert shown in page
    assert "A Fine CPU" in operator.get(LIST).content.decode()


def test_what_an_agent_reported_is_never_markup(operator: Client, project: Project) -> None:
    node = register_node("mine", kind="measured", project=project)
    Node.objects.update(facts={"chip": "<script>alert(1)</script>"})
    for url in (LIST, reverse("admin:hardware_node_change", args=[node.pk])):
        assert "<script>alert" not in operator.get(url).content.decode()


def test_a_registered_node_can_not_change_its_kind_or_slug(operator: Client, project: Project) -> None:
    node = register_node("mine", kind="measured", project=project)
    url = reverse("admin:hardware_node_change", args=[node.pk])
    body = {"name": "Renamed", "project": project.pk, "kind": "modelled", "slug": "x", "labels": '{"rack": "b"}'}
    assert operator.post(url, body).status_code == 302
    node.refresh_from_db()
    assert (node.name, node.slug, node.kind, node.labels) == ("Renamed", "mine", "measured", {"rack": "b"})


def test_a_node_can_not_be_deleted(root: Client) -> None:
    node = register_node("mine", kind="measured")
    assert root.post(reverse("admin:hardware_node_delete", args=[node.pk]), {"post": "yes"}).status_code == 403
    act(root, "delete_selected", node)
    assert Node.objects.exists()


@pytest.mark.parametrize("action", ["drain", "resume", "retire", "rotate", "issue_join_token"])
def test_each_action_asks_first(operator: Client, project: Project, action: str) -> None:
    node = register_node("mine", kind="measured", project=project)
    answer = join(JoinRequest(token=issue_join_token(node)))
    before = Node.objects.values().get()
    page = act(operator, action, node, confirmed=False)
    assert 'name="confirmed"' in page and answer.node in page
    assert Node.objects.values().get() == before
    assert JoinToken.objects.count() == 1


def test_drain_and_resume(operator: Client, project: Project) -> None:
    node = register_node("mine", kind="measured", project=project)
    Node.objects.update(state="online", last_seen_at=timezone.now())
    act(operator, "drain", node)
    assert (Node.objects.get().state, Node.objects.get().draining) == ("draining", True)
    act(operator, "resume", node)
    assert (Node.objects.get().state, Node.objects.get().draining) == ("online", False)


def test_retire(operator: Client, project: Project) -> None:
    node = register_node("mine", kind="measured", project=project)
    act(operator, "retire", node)
    assert Node.objects.get().state == "retired"
    assert "is retired" in act(operator, "drain", node)


@pytest.mark.parametrize("action", ["rotate", "issue_join_token"])
def test_a_new_join_command_is_shown_once(operator: Client, project: Project, action: str) -> None:
    node = register_node("mine", kind="measured", project=project)
    before = join(JoinRequest(token=issue_join_token(node)))
    token = join_command(act(operator, action, node))
    assert token is not None
    assert (Node.objects.get().api_digest == "") is (action == "rotate")
    assert join(JoinRequest(token=token)).api_token != before.api_token


def test_an_action_reaches_no_node_of_another_project(operator: Client) -> None:
    theirs = register_node("theirs", kind="measured", project=Project.objects.create(name="Two", slug="two"))
    shared = register_node("shared", kind="measured")
    for action in ("drain", "retire", "rotate"):
        act(operator, action, theirs, shared)
    assert set(Node.objects.values_list("state", "draining")) == {("registered", False)}
    assert not JoinToken.objects.exists()
