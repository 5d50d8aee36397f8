"""POST /imports with files of other tools: experiments whose runs are imported, and are seen to be everywhere."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import foreign_files as files
import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import team
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from experiments.imported import differences_of
from experiments.importing import results, upload
from experiments.models import Attempt, Experiment, RequestRecord, Run
from labsite.accounts.models import AuditEntry, Project, Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return team()


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project)


class Importer:
    """Sends a file and lets what follows the commit happen."""

    def __init__(self, caller: Caller, callbacks: Any) -> None:
        self._caller, self._callbacks = caller, callbacks

    def send(self, content: Any, query: str = "") -> Any:
        body = content if isinstance(content, bytes) else json.dumps(content)
        with self._callbacks(execute=True):
            return self._caller.post(f"/imports{query}", body, "application/octet-stream")

    def made(self, content: Any, query: str = "") -> Experiment:
        response = self.send(content, query)
        assert response.status_code == 201, response.content
        return Experiment.objects.get(pk=response.json()["id"])


@pytest.fixture
def importer(caller: Caller, django_capture_on_commit_callbacks: Any) -> Importer:
    return Importer(caller, django_capture_on_commit_callbacks)


def test_a_detailed_file_becomes_a_run_with_records_and_figures_of_our_own(importer: Importer) -> None:
    experiment = importer.made(files.vllm(), "?file=..%2Fresults%2Fbench.json")
    assert experiment.state == "done" and experiment.imported is not None
    assert experiment.imported["tool"] == "vllm" and experiment.imported["file"] == "bench.json"
    run = experiment.runs.get()
    attempt = Attempt.objects.get(run=run)
    assert attempt.node is None and run.final_attempt == attempt
    assert RequestRecord.objects.filter(run_id=run.pk).count() == 30
    metrics = run.summary["metrics"]
    assert (
        run.valid and metrics["ttft"]["value"] == pytest.approx(0.2) and metrics["tpot"]["value"] == pytest.approx(0.01)
    )
    assert "effective_ttft" not in metrics or metrics["effective_ttft"]["value"] is None
    assert metrics["output_throughput_per_chip"]["value"] is None
    wrong = [one for one in differences_of(run) if not one.same]
    assert [(one.metric, one.statistic) for one in wrong] == [("tpot", "median")]
    assert AuditEntry.objects.filter(action="experiment.import").count() == 1


@pytest.mark.parametrize("detailed", [True, False])
def test_a_modelled_run_that_went_out_as_another_tools_file_stays_modelled(
    importer: Importer, caller: Caller, detailed: bool
) -> None:
    file = files.vllm() | {"modelled": True}
    run = importer.made(file if detailed else {k: v for k, v in file.items() if k != "ttfts"}).runs.get()
    assert run.summary["modelled"] is True and run.imported["modelled"] is True
    assert caller.get(f"/runs/{run.pk}").json()["modelled"] is True


def test_a_file_without_requests_gives_the_tools_own_figures(importer: Importer) -> None:
    experiment = importer.made([files.inferencex_row(8), files.inferencex_row(16), files.inferencex_row(16)])
    runs = list(experiment.runs.select_related("trial").order_by("position"))
    assert [run.trial.settings["conc"] for run in runs] == [8, 16, 16]
    assert [run.repeat for run in runs] == [0, 0, 1]
    assert runs[0].final_attempt is None and runs[0].valid
    assert runs[0].summary["metrics"]["tpot"]["value"] == 0.02
    assert list(differences_of(runs[0])) == []


def test_a_guidellm_report_becomes_a_trial_for_each_of_its_benchmarks(importer: Importer) -> None:
    experiment = importer.made(files.guidellm())
    first, second = experiment.trials.order_by("index")
    assert first.settings == {"strategy": "concurrent", "max_concurrency": 2}
    assert second.settings == {"strategy": "poisson", "request_rate": 9.5}
    assert second.runs.get().summary["metrics"]["effective_ttft"]["value"] == pytest.approx(0.201)


def test_too_few_requests_make_an_imported_run_invalid_by_the_tools_counts_too(importer: Importer) -> None:
    short = {key: value for key, value in files.vllm(10, failed=2).items() if not isinstance(value, list)}
    run = importer.made(short).runs.get()
    assert run.reasons == ["too_few_requests", "errors_over_1pct"] and not run.valid


def test_the_api_and_a_comparison_say_that_a_run_is_imported(importer: Importer, caller: Caller) -> None:
    experiment = importer.made(files.vllm())
    run = experiment.runs.get()
    told = caller.get(f"/runs/{run.pk}").json()
    assert told["imported"] is True and told["modelled"] is False and told["node"] is None
    assert told["attempts"][0]["node"] is None
    compared = caller.get(f"/compare?experiment={experiment.pk}").json()
    assert compared["trials"][0]["imported"] is True


def test_its_pages_show_it_as_imported_and_what_differs(importer: Importer, caller: Caller) -> None:
    experiment = importer.made(files.vllm(model_id="<script>alert(1)</script>"), "?name=%3Cb%3Ex%3C%2Fb%3E")
    browser = Client()
    assert caller.user is not None
    browser.force_login(caller.user)
    run = experiment.runs.get()
    for address in (f"/experiments/{experiment.pk}/", f"/runs/{run.pk}/", "/experiments/",
                    f"/compare/?trials={run.trial_id}"):  # fmt: skip
        page = browser.get(address).content.decode()
        assert "imported" in page, address
        assert "<script>alert" not in page and "<b>x</b>" not in page
    assert "tpot" in browser.get(f"/runs/{run.pk}/").content.decode().lower()
    # it took no time of this lab's
    assert ", took" not in browser.get(f"/experiments/{experiment.pk}/").content.decode()


def test_what_is_no_result_file_is_refused_with_its_place_and_leaves_nothing(importer: Importer) -> None:
    body = refused(importer.send(files.vllm(ttfts=[TTFT_WRONG] * 30)), 422)
    assert body["errors"][0]["field"] == "file ttfts[0]"
    refused(importer.send(b"PK\x03\x04 and no zip"), 422)
    refused(importer.send(b""), 422)
    refused(importer.send({"a": 1}), 422)
    assert not Experiment.objects.exists() and not Run.objects.exists() and not RequestRecord.objects.exists()


TTFT_WRONG = "soon"


def test_a_file_above_the_limit_is_refused(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "PIECE_BYTES", 100)
    monkeypatch.setattr(upload.kept.__wrapped__, "__defaults__", (1_000,))  # type: ignore[attr-defined]
    body = refused(importer.send(files.vllm()), 413)
    assert "1000" in body["errors"][0]["message"]


def test_figures_of_a_large_file_are_left_to_the_reaper(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "AT_ONCE", 10)
    run = importer.made(files.vllm()).runs.get()
    assert run.valid is None and run.final_attempt is not None


def test_only_researchers_of_the_project_may_import(project: Project) -> None:
    assert_people_only("POST", "/imports")
    refused(member(project, Role.VIEWER).post("/imports", json.dumps(files.vllm()), "application/octet-stream"), 403)
    foreign = member().post(f"/imports?project={project.slug}", json.dumps(files.vllm()), "application/octet-stream")
    refused(foreign, 400)


def test_the_list_of_experiments_takes_a_file(caller: Caller, project: Project) -> None:
    browser = Client()
    assert caller.user is not None
    browser.force_login(caller.user)
    assert 'id="import-file"' in browser.get("/experiments/").content.decode()
    sent = SimpleUploadedFile("bench.json", json.dumps(files.vllm()).encode())
    response = browser.post("/experiments/import", {"file": sent, "project": project.slug})
    made = Experiment.objects.get()
    assert response.status_code == 302 and response["Location"] == f"/experiments/{made.pk}/"
    wrong = SimpleUploadedFile("bench.json", json.dumps(files.vllm(ttfts=["soon"] * 30)).encode())
    page = browser.post("/experiments/import", {"file": wrong}, follow=True).content.decode()
    assert "ttfts[0]" in page and "a number from 0" in page
    assert "Choose the file" in browser.post("/experiments/import", {}, follow=True).content.decode()


def test_rows_whose_percentiles_are_few_have_a_page(importer: Importer, caller: Caller) -> None:
    run = importer.made(files.inferencex_row()).runs.get()
    browser = Client()
    assert caller.user is not None
    browser.force_login(caller.user)
    page = browser.get(f"/runs/{run.pk}/").content.decode()
    assert "InferenceX" in page or "inferencex" in page
    assert browser.get(f"/experiments/{run.experiment_id}/").status_code == 200


HIDDEN = ["a\0b", "a" + "\u0301" * 30, "\u202egnp.exe"]


@pytest.mark.parametrize("text", HIDDEN)
def test_a_name_that_nobody_can_read_is_refused_and_that_of_a_file_is_left_out(importer: Importer, text: str) -> None:
    refusal = refused(importer.send(files.vllm(), f"?name={quote(text)}"), 422)
    assert [error["field"] for error in refusal["errors"]] == ["name"]
    made = importer.made(files.vllm(), f"?file={quote(text)}")
    assert made.name.startswith("vllm") and made.document["name"] == made.name


def test_a_text_that_the_database_can_not_hold_is_refused_by_its_place(importer: Importer) -> None:
    assert "run 0.model" in refused(importer.send(files.vllm() | {"model_id": "a\0b"}), 422)["detail"]
    halves = files.vllm() | {"errors": ["\ud800"] * 30}
    assert "half a surrogate pair" in refused(importer.send(halves), 422)["detail"]
    assert importer.send(files.vllm() | {"generated_texts": ["\U0001f600 \0"] * 30}).status_code == 201
    assert Experiment.objects.count() == 1
