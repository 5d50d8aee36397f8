"""The list of experiments: searched, filtered, sorted and paged by its address."""

from __future__ import annotations

import pytest
from control_plane import document, person, submit, team
from modelled_node import MODELLED, modelled_node, text_of

from experiments.models import Experiment

pytestmark = pytest.mark.django_db


@pytest.fixture
def several(project, researcher) -> dict[str, Experiment]:
    modelled_node()
    made = {
        "batching": submit(project, researcher, **MODELLED, name="batching", tags=["chat"], question="how many users?"),
        "precision": submit(project, person(project), **MODELLED, name="precision", tags=["chat", "int8"]),
        "theirs": submit(team(), **MODELLED, name="theirs"),
    }
    Experiment.objects.filter(name="precision").update(priority=-5, state="done")
    return made


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"batching", "precision"}),
        ("?search=users", {"batching"}),
        ("?search=preci", {"precision"}),
        ("?tag=chat", {"batching", "precision"}),
        ("?tag=int8", {"precision"}),
        ("?state=done", {"precision"}),
        ("?model=smollm2-135m-instruct", {"batching", "precision"}),
        ("?model=another", set()),
        ("?search=%27%22%3B--", set()),
        ("?deleted=true", set()),
    ],
)
def test_the_address_says_what_is_listed(browser, several, query, found):
    page = text_of(browser.get(f"/experiments/{query}"))
    listed = {name for name, one in several.items() if f'href="/experiments/{one.pk}/"' in page}
    assert listed == found


def test_owner_and_project_narrow_the_list(browser, several, project, researcher):
    mine = text_of(browser.get(f"/experiments/?owner={researcher.username}&project={project.slug}"))
    assert ">batching<" in mine and ">precision<" not in mine
    assert "No experiment is like that" in text_of(browser.get("/experiments/?project=elsewhere"))


@pytest.mark.parametrize(("sort", "first"), [("name", "batching"), ("-priority", "batching"), ("", "precision")])
def test_the_list_is_sorted(browser, several, sort, first):
    page = text_of(browser.get(f"/experiments/?sort={sort}"))
    other = "precision" if first == "batching" else "batching"
    assert page.index(f">{first}<") < page.index(f">{other}<")


@pytest.mark.parametrize(
    "query", ["?state=nonsense", "?cursor=xyz", f"?search={'x' * 300}", "?sort=;drop", "?search=%00", "?priority=x",
              "?deleted=perhaps", "?created_after=yesterday"],
)  # fmt: skip
def test_what_cannot_be_taken_is_left_out_and_named(browser, several, query):
    page = text_of(browser.get(f"/experiments/{query}"))
    assert f"Left out of the address: {query[1:].split('=')[0]}" in page
    assert ">batching<" in page


def test_a_filter_stays_over_the_pages_and_each_page_costs_the_same(browser, project, researcher, several):
    rows = [
        Experiment(project=project, owner=researcher, name=f"many {i:03}", tags=["many"], document=document(), spec={})
        for i in range(70)
    ]
    Experiment.objects.bulk_create(rows)
    seen: list[str] = []
    address = "?tag=many&sort=name"
    while address:
        answer = browser.get(f"/experiments/{address}")
        seen += [row.experiment.name for row in answer.context["rows"]]
        address = answer.context["following"]
        assert address is None or "tag=many" in address
    assert seen == [f"many {i:03}" for i in range(70)]


def test_the_list_costs_a_fixed_number_of_queries(browser, project, researcher, django_assert_max_num_queries):
    rows = [Experiment(project=project, owner=researcher, name=f"e{i}", document={}, spec={}) for i in range(40)]
    Experiment.objects.bulk_create(rows)
    with django_assert_max_num_queries(20):
        assert len(browser.get("/experiments/").context["rows"]) == 30


def test_names_and_tags_from_people_are_escaped(browser, project, researcher):
    modelled_node()
    submit(project, researcher, **MODELLED, name="<script>alert(1)</script>", tags=["<img src=x>", "a&b=c"])
    page = browser.get("/experiments/").content.decode()
    assert "<script>alert(1)" not in page and "<img src=x>" not in page
    assert "?tag=a%26b%3Dc" in page
