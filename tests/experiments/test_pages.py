"""Each page: who may see it, what it says of real runs, and what it says when there is nothing yet."""

from __future__ import annotations

import re

import pytest
from control_plane import document, person, submit, team
from django.test import Client
from modelled_node import MODELLED, modelled_node, text_of

from experiments.models import Experiment
from experiments.shipped import FOLDER
from hardware.models import Node, NodeKind
from labsite.accounts.models import Role

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = ["/", "/now", "/experiments/", "/experiments/new/", "/compare/"]


@pytest.mark.parametrize("path", [*PAGES, "/experiments/1/", "/runs/1/", "/experiments/1/results", "/runs/1/results"])
def test_nobody_sees_a_page_without_signing_in(path):
    response = Client().get(path)
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_says_what_to_do_when_there_is_nothing(browser, path):
    response = browser.get(path)
    assert response.status_code == 200
    assert "Inference lab" in text_of(response) or path == "/now"


def test_the_empty_start_page_points_to_the_first_steps(browser):
    page = text_of(browser.get("/"))
    for hint in ("No node yet", "Nothing waits", "No experiment yet"):
        assert hint in page


@pytest.mark.parametrize(("role", "shown"), [(Role.RESEARCHER, False), (Role.OPERATOR, True), (Role.ADMIN, True)])
def test_whoever_the_admin_lets_in_is_led_there(project, role, shown):
    client = Client()
    client.force_login(person(project, role))
    assert ('href="/admin/"' in text_of(client.get("/"))) is shown


def test_a_node_that_is_not_there_does_not_count_as_in_service(browser):
    modelled_node()
    Node.objects.create(name="Later", slug="later", kind=NodeKind.MEASURED)
    assert "1 of 2 in service" in text_of(browser.get("/"))


def test_another_teams_things_are_not_found(finished):
    client = Client()
    client.force_login(person(team()))
    run = finished.runs.first()
    for path in (f"/experiments/{finished.pk}/", f"/experiments/{finished.pk}/results", f"/runs/{run.pk}/",
                 f"/runs/{run.pk}/state", f"/runs/{run.pk}/results"):  # fmt: skip
        assert client.get(path).status_code == 404, path
    for path in (f"/experiments/{finished.pk}/cancel", f"/runs/{run.pk}/cancel"):
        assert client.post(path).status_code == 404, path
    assert "Which trials?" in text_of(client.get(f"/compare/?experiment={finished.pk}"))


def test_an_experiment_shows_its_trials_with_medians_and_says_modelled(browser, finished):
    page = text_of(browser.get(f"/experiments/{finished.pk}/"))
    assert "8 of 8 runs ended" in page
    assert page.count("data-run-dot") == 8
    assert re.search(r"<small>[\d.,k]+ – [\d.,k]+</small>", page)
    assert '<span class="tag modelled">' in page
    assert "tok/s" in page


def test_a_run_shows_its_figures_validity_timeline_and_provenance(browser, finished):
    run = finished.runs.get(trial__index=0, repeat=0)
    page = text_of(browser.get(f"/runs/{run.pk}/"))
    assert run.valid
    assert "modelled, calibrated" in page
    for part in ("Percentiles", "Thresholds", "Requests", "live-figures", "h100-sxm", "Attempts"):
        assert part in page, part


def test_the_check_lists_every_fault_with_field_and_what_is_allowed(browser):
    page = text_of(browser.post("/experiments/new/check", {"document": "name: x\nmodel: nope\nspeed: fast\n"}))
    for part in ("speed", "unknown key", "workload", "required"):
        assert part in page


def test_the_check_names_the_labels_that_there_are(browser):
    modelled_node()
    text = str(document(**MODELLED | {"nodes": {"labels": {"kind": "measured"}}})).replace("'", '"')
    assert "chip: h100-sxm; kind: modelled;" in text_of(browser.post("/experiments/new/check", {"document": text}))


def test_the_check_expands_the_matrix(browser, finished):
    text = str(document(**MODELLED)).replace("'", '"')
    page = text_of(browser.post("/experiments/new/check", {"document": text}))
    assert "8 runs" in page
    assert "4 trials × 2 repeats" in page


def test_a_refused_text_comes_back_whole(browser):
    response = browser.post("/experiments/new/", {"document": "name: kept & <safe>\n"})
    assert response.status_code == 422
    assert "kept &amp; &lt;safe&gt;" in response.content.decode()
    assert not Experiment.objects.exists()


def test_submitting_queues_the_experiment_and_sending_twice_makes_one(browser, project):
    modelled_node()
    form = {"document": str(document(**MODELLED)).replace("'", '"'), "once": "abc", "project": project.slug}
    first, second = (browser.post("/experiments/new/", form) for _ in range(2))
    assert first.status_code == second.status_code == 302
    assert first["Location"] == second["Location"]
    assert Experiment.objects.count() == 1


def test_a_viewer_reads_but_neither_submits_nor_cancels(project, finished):
    client = Client()
    client.force_login(person(project, Role.VIEWER))
    assert client.get(f"/experiments/{finished.pk}/").status_code == 200
    assert client.post("/experiments/new/", {"document": "name: x"}).status_code == 403
    waiting = submit(project, person(project), **MODELLED)
    client.post(f"/experiments/{waiting.pk}/cancel")
    waiting.refresh_from_db()
    assert waiting.state == "active"


def test_cancelling_ends_what_waits(browser, project, researcher):
    modelled_node()
    experiment = submit(project, researcher, **MODELLED)
    response = browser.post(f"/experiments/{experiment.pk}/cancel", follow=True)
    experiment.refresh_from_db()
    assert experiment.state == "cancelled"
    assert "cancelled" in text_of(response)


def test_changing_pages_need_a_post(browser, finished):
    for path in (
        f"/experiments/{finished.pk}/cancel",
        f"/runs/{finished.runs.first().pk}/cancel",
        "/experiments/new/check",
    ):
        assert browser.get(path).status_code == 405, path


def test_every_shipped_example_passes_its_own_check(browser):
    assert sorted(FOLDER.glob("*.yaml"))
    for path in FOLDER.glob("*.yaml"):
        page = text_of(browser.post("/experiments/new/check", {"document": path.read_text()}))
        assert "unknown key" not in page
        assert "not yet supported" not in page


def test_the_list_pages_through_older_experiments(browser, project, researcher):
    modelled_node()
    for number in range(31):
        submit(project, researcher, **MODELLED, name=f"number {number}")
    first = text_of(browser.get("/experiments/"))
    assert "number 30" in first
    assert "number 0<" not in first
    older = re.search(r'\?cursor=([^"]+)"', first)
    assert older
    assert "number 0<" in text_of(browser.get(f"/experiments/?cursor={older[1]}"))


@pytest.mark.parametrize("cursor", ["-1", "x", "9" * 5000, "٣"])
def test_a_hostile_list_address_gives_a_page(browser, cursor):
    assert browser.get(f"/experiments/?cursor={cursor}").status_code == 200


def test_names_from_people_are_escaped_everywhere(browser, project, researcher):
    modelled_node()
    experiment = submit(project, researcher, **MODELLED, name="<script>alert(1)</script>", question='"><img src=x>')
    for path in ("/", "/experiments/", f"/experiments/{experiment.pk}/", f"/runs/{experiment.runs.first().pk}/",
                 f"/compare/?experiment={experiment.pk}"):  # fmt: skip
        page = browser.get(path).content.decode()
        assert "<script>alert(1)" not in page, path
        assert "<img src=x>" not in page, path
