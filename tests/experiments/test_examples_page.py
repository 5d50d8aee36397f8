"""The page of examples: what each asks, one click that runs it, and a refusal told where it was asked for."""

from __future__ import annotations

import re

import pytest
from control_plane import person, team
from django.test import Client
from modelled_node import modelled_node, text_of

from experiments.models import Experiment
from experiments.shipped import examples
from labsite.accounts.models import Role

pytestmark = pytest.mark.django_db
RUN = "/examples/modelled/run"


def test_every_example_has_its_question_and_both_buttons(browser):
    page = text_of(browser.get("/examples/"))
    for one in examples():
        assert f'action="/examples/{one.slug}/run"' in page
        assert f"/experiments/new/?example={one.slug}" in page
    assert "at once?" in page and "Needs a modelled node that offers" in page


def test_one_click_runs_it_and_a_second_makes_no_second(browser):
    modelled_node()
    first = browser.post(RUN, {"once": "a"})
    experiment = Experiment.objects.get()
    assert first["Location"] == f"/experiments/{experiment.pk}/"
    assert experiment.document["name"] == "Modelled: batching on an H100"
    assert browser.post(RUN, {"once": "a"})["Location"] == first["Location"]
    assert browser.post(RUN, {"once": "b"})["Location"] != first["Location"]


def test_without_a_node_for_it_the_example_says_what_is_missing_and_nothing_is_stored(browser):
    response = browser.post(RUN)
    page = text_of(response)
    assert response.status_code == 422
    part = page[page.index('id="modelled"') :]
    assert 'role="alert"' in part[: part.index("</section>")]
    assert page.count('role="alert"') == 1
    assert not Experiment.objects.exists()


def test_who_may_not_submit_sees_the_examples_but_no_button_to_run_one():
    viewer = Client()
    viewer.force_login(person(team(), Role.VIEWER))
    page = text_of(viewer.get("/examples/"))
    assert "You may not submit in any project" in page
    assert not re.search(r'action="/examples/[^"]+/run"', page)
    assert viewer.post(RUN).status_code == 403


def test_another_teams_project_is_none_to_submit_to(browser):
    modelled_node()
    assert browser.post(RUN, {"project": team().slug}).status_code == 403
    assert not Experiment.objects.exists()


def test_an_example_that_there_is_not_is_not_found(browser):
    assert browser.post("/examples/no-such/run").status_code == 404
    assert browser.get(RUN).status_code == 405


def test_an_example_opens_in_the_form_with_its_comments(browser):
    page = browser.get("/experiments/new/?example=modelled").content.decode()
    assert "Modelled: batching on an H100" in page and "# A chip that is not at hand" in page
    assert "Demo: precision and batching" in text_of(browser.get("/experiments/new/?example=no-such"))


def test_an_experiment_of_an_example_shows_what_to_look_for(browser, finished: Experiment):
    example = next(one for one in examples() if one.guide)
    page = f"/experiments/{finished.pk}/"
    assert 'id="guide"' not in text_of(browser.get(page))
    finished.tags = [example.tag]
    finished.save()
    assert 'id="guide"' in text_of(browser.get(page))


def test_the_pages_that_start_something_lead_to_the_examples(browser):
    for path in ("/", "/experiments/", "/experiments/new/"):
        assert 'href="/examples/"' in text_of(browser.get(path)), path
