"""The compare page: any trials of any experiments, what is drawn of them, and addresses that are wrong."""

from __future__ import annotations

import re

import pytest
from control_plane import person, submit, team
from django.test import Client
from modelled_node import MODELLED, figure, modelled_node, text_of

from experiments.models import Run
from experiments.pages import compare

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_compare_page_keeps_its_state_in_the_address(browser, finished):
    trials = list(finished.trials.values_list("id", flat=True))
    address = f"/compare/?trials={trials[1]},{trials[2]}&x=ttft&y=goodput&baseline={trials[2]}"
    page = text_of(browser.get(address))
    assert f'value="{trials[2]}" selected' in page
    assert 'value="ttft" selected' in page
    assert text_of(browser.get(address)) == page or "csrf" in page
    assert f'<option value="{trials[0]}"' not in page


@pytest.mark.parametrize(
    "query", ["trials=x,,9999999999999999999999", "trials=-1", "experiment=abc", "x=nonsense&trials=1"]
)
def test_a_hostile_compare_address_gives_the_empty_page(browser, query):
    response = browser.get(f"/compare/?{query}")
    assert response.status_code == 200
    assert "Which trials?" in text_of(response)


def test_percentile_curves_and_spread_are_drawn_for_the_chosen_latency(browser, finished):
    response = browser.get(f"/compare/?experiment={finished.pk}&latency=e2el")
    curves, boxes = figure(response, "curves"), figure(response, "boxes")
    assert len(curves["data"]) == len(boxes["data"]) == 4
    assert all(trace["line"]["dash"] == "dash" and "(modelled)" in trace["name"] for trace in curves["data"])
    for curve, box in zip(curves["data"], boxes["data"], strict=True):
        assert curve["y"][-1] == pytest.approx(100)
        assert curve["x"] == sorted(curve["x"])
        assert box["lowerfence"][0] <= box["q1"][0] <= box["median"][0] <= box["q3"][0] <= box["upperfence"][0]
    assert "E2EL, percentile curves" in text_of(response)


def test_runs_without_stored_distributions_leave_the_curves_out(browser, finished):
    Run.objects.update(distributions=None)
    page = text_of(browser.get(f"/compare/?experiment={finished.pk}"))
    assert "percentile curves" not in page
    assert "Figures" in page


def test_the_table_of_differences_says_what_may_be_said_of_modelled_trials(browser, finished):
    page = text_of(browser.get(f"/compare/?experiment={finished.pk}"))
    assert "Differences in every other metric" in page
    assert page.count("of modelled trials: the 90 % band") == 2
    assert "90 % band of the calibration error" in page and "no interval (uncalibrated)" in page


def test_of_many_trials_few_metrics_are_shown_and_a_link_shows_every_one(browser, finished, monkeypatch):
    monkeypatch.setattr(compare, "MOST_CELLS", 3 * finished.trials.count())
    monkeypatch.setattr(compare, "MOST_CURVES", 2)
    address = f"/compare/?experiment={finished.pk}&x=ttft&y=itl"
    few = browser.get(address)
    assert [row["name"] for row in few.context["metrics"]] == ["output_throughput", "ttft", "itl"]
    assert {row["metric"] for row in few.context["lead_differences"]} == {"output_throughput", "ttft"}
    assert len(figure(few, "curves")["data"]) == 2 and "the first 2 trials" in text_of(few)
    assert "show every metric" in text_of(few) and "figures=all" in few.content.decode()
    every = browser.get(f"{address}&figures=all")
    assert len(every.context["metrics"]) == few.context["num_metrics"] > 20
    assert "show every metric" not in text_of(every)
    assert 'name="figures" value="all"' in every.content.decode()


def test_trials_are_found_by_their_experiments_name_and_added_to_those_there(browser, finished):
    submit(finished.project, finished.owner, **MODELLED, name="another question")
    chosen = finished.trials.first().pk
    offer = text_of(browser.get(f"/compare/offer?q=ANOTHER&trials={chosen}"))
    assert "another question" in offer
    assert f"<legend>{finished.name}" not in offer
    page = text_of(browser.get(f"/compare/?trials={chosen}&q={finished.name}"))
    offered = {int(found) for found in re.findall(r'type="checkbox" name="trials" value="(\d+)"', page)}
    assert offered >= set(finished.trials.values_list("pk", flat=True)) - {chosen}
    assert chosen not in offered


def test_a_trial_can_be_taken_off_the_page(browser, finished):
    first, second = finished.trials.values_list("pk", flat=True)[:2]
    page = text_of(browser.get(f"/compare/?trials={first},{second}&drop={first}"))
    assert f'name="trials" value="{second}"' in page
    assert f'name="drop" value="{first}"' not in page


def test_a_search_that_finds_nothing_says_so(browser, finished):
    page = text_of(browser.get("/compare/offer", {"q": "<b>nothing\0"}))
    assert "No experiment named like “&lt;b&gt;nothing" in page


def test_another_teams_trials_are_neither_offered_nor_shown(finished):
    client = Client()
    client.force_login(person(team()))
    assert "No further trial to compare" in text_of(client.get("/compare/offer"))
    trial = finished.trials.first().pk
    assert "Which trials?" in text_of(client.get(f"/compare/?trials={trial}"))


def test_differences_between_trials_that_have_not_run_are_not_shown(browser, project, researcher):
    modelled_node()
    waiting = submit(project, researcher, **MODELLED)
    page = text_of(browser.get(f"/compare/?experiment={waiting.pk}"))
    assert "No valid run yet" in page
    assert "percentile curves" not in page
