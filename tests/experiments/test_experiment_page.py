"""The experiment's page: what can be done there and by whom, its heat map, its exports, and trials to compare."""

from __future__ import annotations

import json
import re

import pytest
from control_plane import person, submit, team
from django.test import Client
from modelled_node import MODELLED, modelled_node, text_of

from experiments.models import Experiment
from hardware.models import Node
from labsite.accounts.models import Project, Role, User

pytestmark = pytest.mark.django_db

THREE_AXES = {"engine.weights": ["bf16", "int8"], "engine.max_num_seqs": [1, 2, 4], "engine.block_size": [16, 32]}


@pytest.fixture
def waiting(project: Project, researcher: User, redis_url: str) -> Experiment:
    modelled_node()
    return submit(project, researcher, **MODELLED, tags=["one", "two words"])


def client_of(project: Project, role: Role) -> Client:
    client = Client()
    client.force_login(person(project, role))
    return client


def do(client: Client, experiment: Experiment, action: str, **form: object) -> str:
    """The page that follows; the experiment is read again."""
    page = text_of(client.post(f"/experiments/{experiment.pk}/{action}", form, follow=True))
    experiment.refresh_from_db()
    return page


def test_the_owner_is_offered_what_can_be_done_and_a_viewer_is_not(browser, project, waiting):
    actions = ["pause", "cancel", "delete", "again", "edit"]
    own = text_of(browser.get(f"/experiments/{waiting.pk}/"))
    seen = text_of(client_of(project, Role.VIEWER).get(f"/experiments/{waiting.pk}/"))
    for action in actions:
        assert f'/experiments/{waiting.pk}/{action}"' in own, action
        assert f'/experiments/{waiting.pk}/{action}"' not in seen, action


def test_pausing_holds_the_experiment_and_resuming_lets_it_go_on(browser, waiting):
    page = do(browser, waiting, "pause")
    assert waiting.state == "paused"
    assert "nothing that waits starts" in page and f"/experiments/{waiting.pk}/resume" in page
    do(browser, waiting, "resume")
    assert waiting.state == "active"


def test_what_has_ended_can_be_neither_paused_nor_resumed(browser, waiting):
    do(browser, waiting, "cancel")
    assert waiting.state == "cancelled"
    for action in ("pause", "resume"):
        assert "only one that has not ended can be" in do(browser, waiting, action)
    assert waiting.state == "cancelled"


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "delete", "edit"])
def test_another_researchers_experiment_stays_as_it_is(action, project, waiting):
    page = do(client_of(project, Role.RESEARCHER), waiting, action, name="taken over")
    assert "needs the role operator" in page
    assert (waiting.state, waiting.name, waiting.deleted_at) == ("active", "an experiment", None)


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "delete", "restore", "again", "edit"])
def test_another_teams_experiment_is_not_there(action, waiting):
    stranger = client_of(team(), Role.ADMIN)
    assert stranger.post(f"/experiments/{waiting.pk}/{action}").status_code == 404
    assert stranger.get(f"/experiments/{waiting.pk}/{action}").status_code == 405


def test_a_deleted_experiment_is_gone_until_it_is_restored(browser, waiting):
    assert "is deleted" in do(browser, waiting, "delete")
    assert browser.get(f"/experiments/{waiting.pk}/").status_code == 404
    assert "Nothing deleted" not in text_of(browser.get("/experiments/?deleted=true"))
    assert f'action="/experiments/{waiting.pk}/restore"' in text_of(browser.get("/experiments/?deleted=true"))
    assert "Restored" in do(browser, waiting, "restore")
    assert browser.get(f"/experiments/{waiting.pk}/").status_code == 200


def test_running_it_again_makes_one_clone_however_often_it_is_clicked(browser, waiting):
    for _ in range(2):
        do(browser, waiting, "again", once="key")
    clone = Experiment.objects.exclude(pk=waiting.pk).get()
    assert (clone.cloned_from_id, clone.document) == (waiting.pk, waiting.document)
    assert f'href="/experiments/{waiting.pk}/"' in text_of(browser.get(f"/experiments/{clone.pk}/"))
    assert f'href="/experiments/{clone.pk}/"' in text_of(browser.get(f"/experiments/{waiting.pk}/"))


def test_what_can_no_longer_run_opens_the_editor_and_says_why(browser, waiting):
    Node.objects.update(state="retired")
    page = do(browser, waiting, "again")
    assert "It can’t be run again as it is: nodes:" in page
    assert "Edit and run again" in page


def test_name_question_tags_and_priority_are_edited(browser, waiting):
    form = {"name": "renamed", "question": "why?\r\nreally", "tags": " a, b ,", "priority": "-3"}
    page = do(browser, waiting, "edit", **form)
    assert (waiting.name, waiting.question, waiting.tags) == ("renamed", "why?\nreally", ["a", "b"])
    assert waiting.priority == -3
    assert "priority -3" in page and "?tag=a" in page


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"name": ""}, "name"), ({"name": "x" * 201}, "name"), ({"priority": "high"}, "priority"),
     ({"priority": "101"}, "priority"), ({"priority": "5"}, "priority"), ({"tags": "y" * 51}, "tags"),
     ({"question": "a\x00b"}, "question")],
)  # fmt: skip
def test_an_edit_that_is_refused_keeps_what_was_typed_and_changes_nothing(browser, waiting, wrong, field):
    form = {"name": "typed name", "question": "typed question", "tags": "typed-tag", "priority": "0"} | wrong
    answer = browser.post(f"/experiments/{waiting.pk}/edit", form)
    page = text_of(answer)
    # 5 is a priority, but not for a researcher to give
    assert answer.status_code == (403 if wrong == {"priority": "5"} else 422)
    assert re.search(rf'role="alert">{field}[.:\d]', page)
    assert ("typed-tag" in page) or field == "tags"
    waiting.refresh_from_db()
    assert (waiting.name, waiting.priority) == ("an experiment", 0)


def test_every_export_is_offered(browser, waiting):
    page = text_of(browser.get(f"/experiments/{waiting.pk}/"))
    for kind in ("runs", "requests", "samples", "steps", "log"):
        for form in ("csv", "jsonl", "parquet"):
            address = f"/api/v1/experiments/{waiting.pk}/export/{kind}.{form}"
            assert address in page
    assert browser.get(f"/api/v1/experiments/{waiting.pk}/export/runs.csv").status_code == 200


def heat_of(client: Client, experiment: Experiment, query: str = "") -> dict:
    page = client.get(f"/experiments/{experiment.pk}/{query}").content.decode()
    return json.loads(re.search(r'<script id="heat-figure"[^>]*>(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.django_db(transaction=True)
def test_the_heat_map_shows_every_cell_with_its_runs(browser, finished):
    (trace,) = heat_of(browser, finished)["data"]
    assert {tuple(trace["x"]), tuple(trace["y"])} == {("bf16", "int8"), ("1", "8")}
    assert all("n = 2, modelled" in text for row in trace["text"] for text in row)
    assert len({trial for row in trace["customdata"] for trial in row}) == 4
    other = heat_of(browser, finished, "?x=engine.max_num_seqs&y=engine.weights&metric=ttft")
    assert other["layout"]["xaxis"]["title"]["text"] == "engine.max_num_seqs"
    assert other["layout"]["meta"]["metric"] == "TTFT"
    for hostile in ("?x=nonsense&y=nonsense&metric=nonsense", "?x=engine.weights&y=engine.weights"):
        layout = heat_of(browser, finished, hostile)["layout"]
        assert layout["xaxis"]["title"] != layout["yaxis"]["title"]


@pytest.mark.django_db(transaction=True)
def test_trials_can_be_picked_for_a_comparison(browser, finished):
    page = text_of(browser.get(f"/experiments/{finished.pk}/"))
    trials = re.findall(r'type="checkbox" form="pick-trials" name="trials" value="(\d+)"', page)
    assert sorted(map(int, trials)) == sorted(finished.trials.values_list("pk", flat=True))
    compared = browser.get(f"/compare/?trials={trials[0]}&trials={trials[2]}").context["trials"]
    assert [trial["id"] for trial in compared] == [int(trials[0]), int(trials[2])]


def test_the_document_is_shown_in_the_order_of_the_specification(browser, waiting):
    page = browser.get(f"/experiments/{waiting.pk}/").content.decode()
    document = page[page.index("Document as submitted") :]
    places = [document.index(f"\n{key}:") for key in ("tags", "model", "nodes", "workload", "matrix", "repeats")]
    assert places == sorted(places)


def test_the_page_costs_a_fixed_number_of_queries(browser, project, researcher, django_assert_max_num_queries):
    modelled_node()
    large = submit(project, researcher, **MODELLED | {"matrix": THREE_AXES, "repeats": 3})
    with django_assert_max_num_queries(25):
        browser.get(f"/experiments/{large.pk}/")
