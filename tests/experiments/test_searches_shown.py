"""Searches as the API and the page of their experiment show them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from api_client import Caller, member
from control_plane import ready_node, submit
from django.test import Client
from modelled_node import text_of
from searching import LOAD, end, open_runs, search_through, submit_search

from experiments.models import Experiment
from experiments.services.follow_up import settle_experiment
from labsite.accounts.models import Project, Role

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]
SEQS = "engine.max_num_seqs"


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


def read(caller: Caller, experiment: Experiment) -> Any:
    return caller.get(f"/experiments/{experiment.pk}").json()


def page(browser: Client, experiment: Experiment, query: str = "") -> str:
    return text_of(browser.get(f"/experiments/{experiment.pk}/{query}"))


def drawn(text: str) -> Any:
    found = re.search(r'<script id="search-figure" type="application/json">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


def searched_settings(project: Project, search: dict[str, Any]) -> Experiment:
    """More sequences give more throughput, and take longer."""
    node = ready_node()
    experiment = submit_search(project, search=search)
    while runs := open_runs(experiment):
        seqs = float(runs[0].trial.settings[SEQS])
        end(runs[0], node, value=10 * seqs + runs[0].repeat, ttft=seqs / 10)
        settle_experiment(experiment.pk)
    experiment.refresh_from_db()
    return experiment


def test_other_experiments_have_none(caller: Caller, project: Project) -> None:
    ready_node()
    body = read(caller, submit(project))
    assert (body["search"], body["outcome"]) == (None, "")


def test_a_search_for_the_highest_load_has_its_course_and_its_bracket(caller: Caller, project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project, matrix={SEQS: [8, 16]})
    search_through(experiment, node, limit=5)
    body = read(caller, experiment)
    search = body["search"]
    assert (search["kind"], search["path"], len(search["load"])) == ("load", LOAD, 2)
    for course in search["load"]:
        assert (course["low"], course["high"], course["done"]) == (5, 6, True)
        assert course["confirmed"] == {"passed": 2, "of": 2} and course["breach"] == {"passed": 0, "of": 2}
        assert [level["load"] for level in course["levels"]] == [1, 2, 4, 5, 6, 8]
        assert {level["said"] for level in course["levels"]} == {"passed", "breached"}
    assert "an upper bound was measured at 6" in body["outcome"]
    assert search["runs_at_most"] >= experiment.runs.count()


def test_the_page_draws_the_levels_and_the_bracket_of_the_search_that_is_named(
    browser: Client, project: Project
) -> None:
    node = ready_node()
    experiment = submit_search(project, matrix={SEQS: [8, 16]})
    search_through(experiment, node, limit=5)
    text = page(browser, experiment, "?search=1")
    assert "Highest load under the objective" in text and "an upper bound was measured at 6" in text
    figure = drawn(text)
    (band,) = figure["layout"]["shapes"]
    assert (band["type"], band["y0"], band["y1"]) == ("rect", 5, 6)
    assert {trace["name"] for trace in figure["data"] if "name" in trace} == {"holds", "breach"}
    assert '<td class="num">2 of 2</td>' in text and ">max_concurrency<" in text
    for query in ("?search=7", "?search=x"):
        assert browser.get(f"/experiments/{experiment.pk}/{query}").status_code == 200


def test_a_mere_floor_is_told_from_a_bracket(browser: Client, project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    search_through(experiment, node, limit=99)
    text = page(browser, experiment)
    assert "≥ 16" in text and "no breach was measured" in text
    assert drawn(text)["layout"]["shapes"][0]["type"] == "line"


def test_a_search_under_way_says_that_there_may_be_more(browser: Client, project: Project) -> None:
    ready_node()
    text = page(browser, submit_search(project))
    assert "there may be more" in text and "nothing is known yet" in text


def test_best_settings_show_the_best_with_its_interval_against_the_runner_up(
    caller: Caller, browser: Client, project: Project
) -> None:
    search = {"optimize": "output_throughput", "space": {SEQS: [1, 2, 4, 8]}, "trials": 4, "confirm": 3}
    experiment = searched_settings(project, search)
    body = read(caller, experiment)["search"]
    (course,) = body["best"]
    assert course["best"]["settings"] == {SEQS: 8} and course["runner_up"]["settings"] == {SEQS: 4}
    assert course["best"]["n"] == 3 and course["best"]["low"] < course["best"]["mean"] < course["best"]["high"]
    assert course["difference"]["difference"] == pytest.approx(40) and course["difference"]["verdict"]
    text = page(browser, experiment)
    assert "Best settings" in text and "the best over its runner-up" in text
    assert any(trace.get("name") == "confirmed" for trace in drawn(text)["data"])


def test_a_front_names_the_trials_that_no_other_beats(caller: Caller, browser: Client, project: Project) -> None:
    search = {"pareto": {"metrics": ["output_throughput", "ttft"], "space": {SEQS: [1, 2, 4]}, "trials": 3}}
    experiment = searched_settings(project, search)
    (course,) = read(caller, experiment)["search"]["front"]
    assert sorted(course["front"]) == sorted(experiment.trials.values_list("pk", flat=True))
    assert "Settings that no other beats" in page(browser, experiment)


def test_repeats_until_show_how_tight_each_trial_is(caller: Caller, browser: Client, project: Project) -> None:
    node = ready_node()
    until = {"until": {"metric": "output_throughput", "interval": 0.03, "max": 4, "min": 2}}
    experiment = submit(project, repeats=until)
    while runs := open_runs(experiment):
        end(runs[0], node, value=100 + 10 * (runs[0].repeat % 2))
        settle_experiment(experiment.pk)
    (course,) = read(caller, experiment)["search"]["repeats"]
    assert course["trials"][0]["n"] == 4 and course["trials"][0]["half_width"] > 0.03
    assert "4 repeats are the most" in read(caller, experiment)["outcome"]
    assert "Repeats until the interval is tight" in page(browser, experiment)
