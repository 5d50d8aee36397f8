"""The new-experiment page: form and text follow each other, nothing typed is lost, and what lies ahead is told."""

from __future__ import annotations

import re
from html import unescape

import pytest
from control_plane import document, person, submit, team
from django.test import Client
from modelled_node import MODELLED, modelled_node, text_of

from experiments.models import Experiment
from experiments.shipped import FOLDER
from labsite.accounts.models import Role
from runners.document import parse_text

pytestmark = pytest.mark.django_db

DEMO = (FOLDER / "demo.yaml").read_text()
CHECK = "/experiments/new/check"


def text_in(response) -> str:
    """The document as the page's editor would hold it."""
    found = re.search(r'<textarea id="document"[^>]*>\n(.*?)</textarea>', response.content.decode(), re.DOTALL)
    assert found
    return unescape(found[1])


def control(response, name: str) -> str:
    """The value that a control of the form shows."""
    page = response.content.decode()
    tag = re.search(rf'<(input|select)[^>]* name="{re.escape(name)}".*?>', page)
    assert tag, name
    if tag[1] == "input":
        return unescape(re.search(r' value="([^"]*)"', tag[0])[1])
    options = page[tag.end() : page.index("</select>", tag.end())]
    return unescape(re.search(r'<option value="([^"]*)" selected', options)[1])


def test_the_form_shows_the_text_and_the_text_comes_back_to_the_last_character(browser):
    text = f"\n\n{DEMO}  \n# end"
    response = browser.post(CHECK, {"document": text})
    assert text_in(response) == text
    assert control(response, "set:name") == "Demo: precision and batching"
    assert control(response, "axis:engine.max_num_seqs") == "1, 8"
    assert control(response, "arrival:workload.arrival") == "closed"


def test_a_change_in_the_form_is_in_the_text_and_comments_stay(browser):
    response = browser.post(CHECK, {"document": DEMO, "set": "set:workload.num_requests", "value": "77"})
    text = text_in(response)
    assert parse_text(text)["workload"]["num_requests"] == 77
    assert text.startswith("# The demonstration")
    assert control(response, "set:workload.num_requests") == "77"


def test_what_is_no_number_is_in_the_text_with_the_fault_at_its_field(browser):
    response = browser.post(CHECK, {"document": DEMO, "set": "set:repeats", "value": "<many>"})
    assert parse_text(text_in(response))["repeats"] == "<many>"
    assert "<many>" not in response.content.decode()
    assert re.search(r'name="set:repeats"[^>]*aria-invalid="true"', response.content.decode())


def test_a_text_that_cannot_be_read_keeps_the_form_waiting(browser):
    response = browser.post(CHECK, {"document": "name: [", "set": "set:repeats", "value": "3"})
    assert text_in(response) == "name: ["
    assert "The form waits" in text_of(response)


def test_a_field_that_the_form_does_not_have_is_a_fault_and_changes_nothing(browser):
    response = browser.post(CHECK, {"document": DEMO, "set": "set:__class__", "value": "1"})
    assert text_in(response) == DEMO
    assert "the form has no field" in text_of(response)


def test_without_scripts_the_form_is_taken_into_the_text_and_shown_before_it_is_submitted(browser):
    modelled_node()
    text = (FOLDER / "modelled.yaml").read_text()
    form = {"document": text, "set:repeats": "4", "set:name": "Modelled: batching on an H100", "axis-add:": ""}
    for pressed in ({}, {"do": "apply"}):
        response = browser.post("/experiments/new/", form | pressed)
        assert response.status_code == 200
        assert parse_text(text_in(response))["repeats"] == 4
    assert not Experiment.objects.exists()
    agreed = form | {"document": text_in(response)}
    assert browser.post("/experiments/new/", agreed).status_code == 302
    assert Experiment.objects.get().spec["repeats"] == 4


def test_without_scripts_a_text_that_was_edited_is_not_overwritten_by_the_form_drawn_before(browser):
    modelled_node()
    drawn = (FOLDER / "modelled.yaml").read_text()
    shown = browser.post(CHECK, {"document": drawn})
    stale = {"set:name": control(shown, "set:name"), "set:repeats": control(shown, "set:repeats"), "drawn": drawn}
    edited = drawn.replace("batching", "my own batching", 1)
    assert browser.post("/experiments/new/", stale | {"document": edited}).status_code == 302
    assert "my own batching" in Experiment.objects.get().name
    # A control that was changed as well is taken into the edited text, and the rest of it stays.
    response = browser.post("/experiments/new/", stale | {"document": edited, "set:repeats": "4"})
    assert response.status_code == 200
    assert parse_text(text_in(response))["repeats"] == 4
    assert "my own batching" in parse_text(text_in(response))["name"]


def test_a_refused_text_keeps_every_character_and_the_form_shows_it(browser):
    text = DEMO.replace("model: smollm2-135m-instruct", "model: no-such-model  # kept")
    response = browser.post("/experiments/new/", {"document": text})
    assert response.status_code == 422
    assert text_in(response) == text
    assert control(response, "model:") == "no-such-model"


def test_the_check_warns_and_says_that_there_is_nothing_to_estimate_from(browser):
    modelled_node()
    changed = MODELLED | {"workload": MODELLED["workload"] | {"num_requests": 10}}
    page = text_of(browser.post(CHECK, {"document": str(document(**changed)).replace("'", '"')}))
    assert "8 runs" in page
    assert "too_few_requests" in page
    assert "no past run to estimate the time from" in page


@pytest.mark.django_db(transaction=True)
def test_past_runs_give_an_estimate_with_its_basis(browser, finished):
    page = text_of(browser.post(CHECK, {"document": str(document(**MODELLED)).replace("'", '"')}))
    assert "about" in page
    assert "8 past runs of smollm2-135m-instruct on modelled nodes with the same settings and load" in page


def test_another_experiments_document_is_edited_and_run_again(browser, project, researcher):
    modelled_node()
    first = submit(project, researcher, **MODELLED, name="the first")
    response = browser.get(f"/experiments/new/?from={first.pk}")
    assert parse_text(text_in(response)) == first.document
    assert "Edit and run again" in text_of(response)
    changed = text_in(response).replace("the first", "the second")
    answer = browser.post("/experiments/new/", {"document": changed, "from": first.pk, "once": "a"})
    second = Experiment.objects.get(name="the second")
    assert answer["Location"] == f"/experiments/{second.pk}/"
    assert second.cloned_from_id == first.pk


def test_another_teams_experiment_is_not_there_to_be_edited(browser):
    modelled_node()
    foreign = submit(team(), **MODELLED)
    assert browser.get(f"/experiments/new/?from={foreign.pk}").status_code == 404


@pytest.mark.parametrize("query", ["from=x", "from=-1", f"from={'9' * 40}"])
def test_a_hostile_address_gives_the_plain_page(browser, query):
    assert browser.get(f"/experiments/new/?{query}").status_code == 200


def test_a_viewer_may_look_but_is_told_that_he_cannot_submit(project):
    client = Client()
    client.force_login(person(project, Role.VIEWER))
    assert "You may not submit in any project" in text_of(client.get("/experiments/new/"))


def test_the_check_costs_the_same_number_of_queries_whatever_the_matrix(browser, django_assert_max_num_queries):
    modelled_node()
    many = MODELLED | {"matrix": {"engine.max_num_seqs": list(range(1, 41))}, "repeats": 1}
    with django_assert_max_num_queries(25):
        browser.post(CHECK, {"document": str(document(**many)).replace("'", '"')})
