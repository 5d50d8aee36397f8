"""The nodes' list and a node's page: who sees which, what they say, and what an operator does there."""

from __future__ import annotations

import pytest
from control_plane import person, ready_node, submit, team
from django.test import Client
from modelled_node import MODELLED, modelled_node, text_of

from experiments.models import Attempt
from experiments.services import place_runs
from hardware.models import Node, NodeState
from labsite.accounts.models import AuditEntry, Project, Role

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]

FACTS = {"chip": "Test CPU", "cpu": {"physical_cores": 2, "logical_cores": 4, "l3_bytes": 2**25}, "torch": "odd"}
CEILINGS = {
    "measured_at": 1_796_059_380.9,
    "memory_bandwidth": {"by_threads": {"1": {"best": 3e10, "median": 2.94e10, "repeats": 3}}, "method": "triad"},
    "matmul": {"by_precision": {"bf16": {"best": 4.2e11, "median": 4.17e11}, "odd": "text"}},
}


def client_of(project: Project, role: Role) -> Client:
    client = Client()
    client.force_login(person(project, role))
    return client


def test_nobody_sees_nodes_without_signing_in():
    node = ready_node()
    for path in ("/nodes/", f"/nodes/{node.slug}/"):
        assert Client().get(path)["Location"].startswith("/accounts/login/")


def test_the_list_has_ones_own_nodes_and_those_for_everybody(browser, project):
    ready_node("mine", project=project)
    ready_node("everybodys")
    ready_node("theirs", project=team())
    page = text_of(browser.get("/nodes/"))
    assert ">mine<" in page and ">everybodys<" in page
    assert ">theirs<" not in page
    assert browser.get("/nodes/theirs/").status_code == 404


def test_the_list_is_searched_and_filtered_by_its_address(browser):
    ready_node("alpha")
    Node.objects.filter(slug=ready_node("beta").slug).update(state=NodeState.LOST)
    assert ">beta<" not in text_of(browser.get("/nodes/?search=alp"))
    assert ">alpha<" not in text_of(browser.get("/nodes/?state=lost"))
    assert "No node is like that" in text_of(browser.get("/nodes/?search=gamma"))


def test_what_cannot_be_taken_from_the_address_is_left_out_and_named(browser):
    ready_node("alpha")
    page = text_of(browser.get("/nodes/?state=nonsense&cursor=made-up&sort=%00"))
    assert ">alpha<" in page
    for name in ("state", "cursor", "sort"):
        assert f"Left out of the address: {name}" in page


def test_a_long_list_is_paged_with_a_fixed_number_of_queries(browser, django_assert_max_num_queries):
    Node.objects.bulk_create(Node(name=f"n{i:03}", slug=f"n{i:03}") for i in range(65))
    with django_assert_max_num_queries(20):
        first = browser.get("/nodes/")
    assert ">n029<" in text_of(first) and ">n030<" not in text_of(first)
    second = browser.get("/nodes/" + first.context["following"])
    assert ">n030<" in text_of(second) and ">n029<" not in text_of(second)
    third = browser.get("/nodes/" + second.context["following"])
    assert ">n064<" in text_of(third) and third.context["following"] is None


def test_a_node_says_what_it_is_and_what_it_can_do_at_most(browser):
    node = ready_node()
    Node.objects.filter(pk=node.pk).update(facts=FACTS, ceilings=CEILINGS)
    page = text_of(browser.get(f"/nodes/{node.slug}/"))
    for part in ("Test CPU", "2 physical, 4 logical", "32.0 MiB", "Memory, 1 thread", "29.4&nbsp;GB/s",
                 "417&nbsp;GFLOP/s", "measured on the node, 2026-11-30", "kind: measured"):  # fmt: skip
        assert part in page, part


@pytest.mark.parametrize("told", [{}, {"cpu": 3, "memory": {"usable_bytes": "x"}, "measured_at": "x"}, {"matmul": []}])
def test_an_agent_of_another_version_breaks_no_page(browser, told):
    node = ready_node()
    Node.objects.filter(pk=node.pk).update(facts=told, ceilings=told)
    assert browser.get(f"/nodes/{node.slug}/").status_code == 200


def test_the_history_has_ones_own_runs_alone(browser, project, researcher):
    node = modelled_node()
    submit(project, researcher, **MODELLED, name="my own")
    submit(team(), **MODELLED, name="of others")
    place_runs()
    attempt = Attempt.objects.get(node=node)
    Attempt.objects.filter(pk=attempt.pk).update(state="failed", reason="the test ended it")
    page = text_of(browser.get(f"/nodes/{node.slug}/"))
    assert "of others" not in page
    if attempt.run.experiment.name == "my own":
        assert "the test ended it" in page


@pytest.mark.parametrize(("role", "offered"), [(Role.RESEARCHER, False), (Role.OPERATOR, True)])
def test_operators_are_offered_what_can_be_done(project, role, offered):
    node = ready_node(project=project)
    page = text_of(client_of(project, role).get(f"/nodes/{node.slug}/"))
    assert (f"/nodes/{node.slug}/drain" in page) is offered


def test_an_operator_drains_resumes_and_retires_and_it_is_on_record(project):
    node, operator = ready_node(project=project), client_of(project, Role.OPERATOR)
    for action, state in (("drain", "draining"), ("resume", "online"), ("retire", "retired")):
        page = text_of(operator.post(f"/nodes/{node.slug}/{action}", follow=True))
        node.refresh_from_db()
        assert node.state == state
        assert f'<span class="tag {state}">' in page
    actions = AuditEntry.objects.filter(object_type="node").order_by("id").values_list("action", "via")
    assert list(actions) == [(f"node.{action}", "page") for action in ("drain", "resume", "retire")]
    refused = text_of(operator.post(f"/nodes/{node.slug}/drain", follow=True))
    assert "is retired, and that is for good" in refused


def test_who_does_not_operate_the_node_changes_nothing(project):
    node = ready_node(project=project)
    for client, status in ((client_of(project, Role.RESEARCHER), 403), (client_of(team(), Role.ADMIN), 404)):
        assert client.post(f"/nodes/{node.slug}/retire").status_code == status
    node.refresh_from_db()
    assert node.state == NodeState.ONLINE


def test_only_what_is_offered_can_be_done_and_only_by_a_post(project):
    node, operator = ready_node(project=project), client_of(project, Role.OPERATOR)
    assert operator.get(f"/nodes/{node.slug}/drain").status_code == 405
    assert operator.post(f"/nodes/{node.slug}/rotate").status_code == 404


def test_an_admin_sees_what_was_changed(project):
    node = ready_node(project=project)
    client_of(project, Role.OPERATOR).post(f"/nodes/{node.slug}/drain")
    assert "node.drain" in text_of(client_of(project, Role.ADMIN).get(f"/nodes/{node.slug}/"))
    assert "node.drain" not in text_of(client_of(project, Role.RESEARCHER).get(f"/nodes/{node.slug}/"))
