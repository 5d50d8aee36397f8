"""What can be asked of the lists of experiments, runs, nodes and chips: search, filters, orders and pages."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import quote

import pytest
from api_client import Caller, member, refused
from control_plane import chip, live_attempt, ready_node, submit, team
from django.contrib.postgres.search import SearchQuery
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.models import EXPERIMENT_TEXT, Experiment, Run
from experiments.services import cancel_experiment, place_runs
from labsite.accounts.models import Project, Role, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    ready_node("here")
    return team()


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


def names(caller: Caller, query: str) -> list[str]:
    return [item["name"] for item in items(caller, f"/experiments?{query}")]


def items(caller: Caller, path: str) -> list[dict[str, Any]]:
    answer = caller.get(path)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


# Search


@pytest.mark.parametrize(
    "text",
    ["quant", "QUANTIZED", "chat", "does 4-bit", "4-bit", "users?", "größ", "smollm2-135m", "llm-bench", "'4-bit'",
     "throughput", "bench quantized", "!chat"],
)  # fmt: skip
def test_a_search_finds_words_by_their_beginning_in_name_question_and_tags(
    caller: Caller, project: Project, text: str
) -> None:
    submit(project, name="Does 4-bit hold at 16 users? Größer", question="Throughput of smollm2-135m", tags=["chat",
           "llm-bench", "quantized"])  # fmt: skip
    submit(project, name="something else")
    assert len(names(caller, f"search={quote(text)}")) == 1


@pytest.mark.parametrize("text", ["uantized", "chat missing", "\\", "'", "a:*|b", "&", "--", "<->"])
def test_a_search_for_anything_else_finds_nothing_and_breaks_nothing(
    caller: Caller, project: Project, text: str
) -> None:
    submit(project, name="Holds?", tags=["chat", "quantized"])
    assert names(caller, f"search={quote(text)}") == []


def test_an_empty_search_asks_nothing(caller: Caller, project: Project) -> None:
    submit(project, name="one")
    assert names(caller, "search=%20") == ["one"]


def test_a_search_can_use_its_index(project: Project) -> None:
    submit(project, name="one")
    found = Experiment.objects.annotate(words=EXPERIMENT_TEXT)
    query = found.filter(words=SearchQuery("'one':*", config="simple", search_type="raw")).order_by()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        plan = query.explain()
    assert "experiment_text" in plan


# Filters


def test_experiments_are_filtered_by_state_tag_owner_project_and_priority(
    project: Project, owner: User, caller: Caller
) -> None:
    submit(project, owner, name="tagged", tags=["chat", "a b"])
    cancelled = submit(project, name="cancelled")
    cancel_experiment(cancelled.owner, cancelled)
    Experiment.objects.filter(name="tagged").update(priority=-5)
    assert names(caller, "state=cancelled") == ["cancelled"]
    assert names(caller, "tag=chat") == names(caller, "tag=a%20b") == ["tagged"]
    assert names(caller, "tag=cha") == []
    assert names(caller, f"owner={owner.username}") == ["tagged"]
    assert names(caller, f"project={project.slug}&priority=-5") == ["tagged"]
    assert names(caller, "project=elsewhere") == []


def test_experiments_are_found_by_their_model_also_as_an_axis(caller: Caller, project: Project) -> None:
    submit(project, name="plain")
    submit(project, name="axis", matrix={"model": ["smollm2-135m-instruct"]})
    assert set(names(caller, "model=smollm2-135m-instruct")) == {"plain", "axis"}
    assert names(caller, "model=smollm2") == []


def test_experiments_are_filtered_by_when_they_were_made(caller: Caller, project: Project) -> None:
    submit(project, name="old")
    Experiment.objects.update(created_at=timezone.now() - dt.timedelta(days=2))
    submit(project, name="new")
    yesterday = quote((timezone.now() - dt.timedelta(days=1)).isoformat())
    assert names(caller, f"created_after={yesterday}") == ["new"]
    assert names(caller, f"created_before={yesterday}") == ["old"]


def test_runs_are_filtered_by_experiment_state_node_model_and_validity(caller: Caller, project: Project) -> None:
    ready_node("there", kind="modelled", chip_id=chip().chip_id)
    placed, queued = submit(project, nodes={"names": ["here"]}), submit(project, nodes={"names": ["there"]})
    place_runs()
    on_there = live_attempt(queued.runs.get()).run_id
    Run.objects.filter(pk=on_there).update(valid=True)
    on_here = placed.runs.get().pk

    def found(query: str) -> list[int]:
        return [run["id"] for run in items(caller, f"/runs?{query}")]

    assert found("node=there") == found("modelled=true") == found("valid=true") == [on_there]
    assert found("node=here") == found("modelled=false") == found(f"experiment={placed.pk}") == [on_here]
    assert found("state=assigned&sort=created_at") == [on_here, on_there]
    assert found("state=queued") == found("model=other") == found("node=nowhere") == []
    assert found("search=experiment") == [on_there, on_here]


def test_a_listed_run_says_where_it_belongs(caller: Caller, project: Project) -> None:
    experiment = submit(project, matrix={"engine.weights": ["int8"]})
    (run,) = items(caller, "/runs")
    assert run["experiment"] == {"id": experiment.pk, "name": experiment.name}
    assert run["trial"]["settings"] == {"engine.weights": "int8"}
    assert "spec" not in run


def test_a_list_of_runs_costs_the_same_whatever_its_length(caller: Caller, project: Project) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            items(caller, "/runs")
        return len(captured)

    items(caller, "/runs")
    submit(project)
    one = cost()
    submit(project, repeats=5)
    assert cost() == one


def test_nodes_and_chips_are_searched_filtered_and_ordered(caller: Caller) -> None:
    ready_node("there", kind="modelled", chip_id=chip("tpu").chip_id, usd_per_hour=2.0)
    assert [node["slug"] for node in items(caller, "/nodes?sort=-name")] == ["there", "here"]
    assert [node["slug"] for node in items(caller, "/nodes?sort=usd_per_hour")] == ["there", "here"]
    assert [node["slug"] for node in items(caller, "/nodes?kind=modelled&chip=tpu&search=HER&state=online")] == [
        "there"
    ]
    assert items(caller, "/nodes?search=%25") == [], "a sign of LIKE is a sign"
    assert [chip["chip_id"] for chip in items(caller, "/chips?search=tp")] == ["tpu"]
    assert items(caller, "/chips?vendor=someone") == []


# Orders and pages


def test_experiments_come_in_the_order_asked_for(caller: Caller, project: Project) -> None:
    for name, priority in (("b", 1), ("a", 2), ("c", 1)):
        submit(project, name=name)
        Experiment.objects.filter(name=name).update(priority=priority)
    assert names(caller, "") == ["c", "a", "b"]
    assert names(caller, "sort=name") == ["a", "b", "c"]
    assert names(caller, "sort=-priority") == ["a", "c", "b"]


def test_a_page_goes_on_with_its_filters(caller: Caller, project: Project) -> None:
    for number in range(3):
        submit(project, name=f"x{number}", tags=["t"])
        submit(project, name=f"y{number}")
    first = caller.get("/experiments?tag=t&limit=2&sort=name").json()
    assert names(caller, f"tag=t&limit=2&sort=name&cursor={quote(first['next'])}") == ["x2"]


def test_a_cursor_of_another_order_is_refused_with_its_own(caller: Caller, project: Project) -> None:
    for _ in range(2):
        submit(project)
    cursor = quote(caller.get("/experiments?limit=1&sort=name").json()["next"])
    (error,) = refused(caller.get(f"/experiments?sort=-name&cursor={cursor}"), 422)["errors"]
    assert (error["field"], error["allowed"]) == ("cursor", "name")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sort=owner", "sort"),
        ("state=old", "state"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("cursor=1", "cursor"),
        ("search=%00", "search"),
        (f"search={'x' * 201}", "search"),
        ("created_after=yesterday", "created_after"),
        ("created_after=2026-01-01T00:00:00", "created_after"),
        ("priority=99999", "priority"),
        ("created_before=1767225600", "created_before"),
        ("state=done&state=active", "state"),
        ("deleted=maybe", "deleted"),
    ],
)
def test_a_bad_parameter_is_refused_with_its_name(caller: Caller, query: str, field: str) -> None:
    (error,) = refused(caller.get(f"/experiments?{query}"), 422)["errors"]
    assert error["field"] == field
