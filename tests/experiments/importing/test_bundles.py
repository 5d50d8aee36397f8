"""An experiment goes out as a bundle and comes in as another with the same numbers; one that was touched does not."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from api_client import Caller, refused

from experiments.exports.bundle import _members
from experiments.exports.records import RECORDS, Source, record_pieces
from experiments.imported import differences_of
from experiments.models import Attempt, Experiment, Run
from experiments.services.follow_up import keep_results
from labsite.accounts.models import Project, User
from runners.interchange.bundle import bundle_bytes

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume"),
]

Send = Callable[[bytes], Any]


@pytest.fixture
def caller(researcher: User) -> Caller:
    return Caller(researcher)


@pytest.fixture
def send(caller: Caller, django_capture_on_commit_callbacks: Any) -> Send:
    def sent(content: bytes) -> Any:
        with django_capture_on_commit_callbacks(execute=True):
            return caller.post("/imports?file=x.zip", content, "application/octet-stream")

    return sent


@pytest.fixture
def bundle(finished: Experiment) -> bytes:
    for run in finished.runs.all():
        keep_results(run.pk)
    return b"".join(bundle_bytes("lab", _members(finished)))


def rows_of(run: Run, kind: str) -> list[dict[str, Any]]:
    assert run.final_attempt is not None
    source = Source(run.pk, run.final_attempt.number, True)
    rows = [dict(row) for piece in record_pieces(kind, [source]) for row in piece]
    return [{key: value for key, value in row.items() if key != "run_id"} for row in rows]


def test_a_bundle_is_taken_in_under_new_ids_with_the_same_records_and_figures_to_the_bit(
    finished: Experiment, bundle: bytes, send: Send
) -> None:
    response = send(bundle)
    assert response.status_code == 201, response.content
    made = Experiment.objects.get(pk=response.json()["id"])
    assert made.pk != finished.pk and made.document == finished.document and made.spec == finished.spec
    assert made.imported is not None and made.imported["tool"] == "inference-lab"
    pairs = list(zip(finished.runs.order_by("position"), made.runs.order_by("position"), strict=True))
    assert pairs
    for before, after in pairs:
        assert after.pk != before.pk and after.spec["run_id"] == after.pk
        assert json.dumps(after.summary, sort_keys=True) == json.dumps(before.summary, sort_keys=True)
        assert after.distributions == before.distributions
        assert (after.valid, after.reasons, after.state) == (before.valid, before.reasons, before.state)
        assert all(one.same for one in differences_of(after)) and differences_of(after)
        assert after.imported is not None and after.imported["modelled"] is True
        for kind in RECORDS:
            assert rows_of(after, kind) == rows_of(before, kind)
        assert Attempt.objects.get(run=after).node is None


def test_the_api_gives_the_bundle_of_an_ended_experiment(finished: Experiment, bundle: bytes, caller: Caller) -> None:
    response = caller.get(f"/experiments/{finished.pk}/bundle.zip")
    assert response.status_code == 200 and response["Content-Type"] == "application/zip"
    found = zipfile.ZipFile(io.BytesIO(b"".join(response)))
    assert found.testzip() is None
    assert set(found.namelist()) == set(zipfile.ZipFile(io.BytesIO(bundle)).namelist())
    Run.objects.filter(experiment=finished).update(state="running")
    refused(caller.get(f"/experiments/{finished.pk}/bundle.zip"), 409)


def test_a_bundle_of_an_imported_experiment_is_taken_in_again(bundle: bytes, send: Send) -> None:
    made = Experiment.objects.get(pk=send(bundle).json()["id"])
    again = send(b"".join(bundle_bytes("lab", _members(made))))
    assert again.status_code == 201, again.content
    first, second = made.runs.first(), Experiment.objects.get(pk=again.json()["id"]).runs.first()
    assert first is not None and second is not None and first.summary == second.summary


# What is no whole bundle


def changed(bundle: bytes, change: Callable[[dict[str, bytes]], None], *, sealed: bool = False) -> bytes:
    """The bundle with its members changed; `sealed`: with a manifest that fits them."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if sealed:
        del members["manifest.json"]
        return b"".join(bundle_bytes("lab", [(name, [content]) for name, content in members.items()]))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def first_request(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, bytes]], None]:
    def apply(members: dict[str, bytes]) -> None:
        line, rest = members["runs/0/request.jsonl"].split(b"\n", 1)
        data = json.loads(line)
        change(data)
        members["runs/0/request.jsonl"] = json.dumps(data).encode() + b"\n" + rest

    return apply


def described(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, bytes]], None]:
    def apply(members: dict[str, bytes]) -> None:
        data = json.loads(members["experiment.json"])
        change(data)
        members["experiment.json"] = json.dumps(data).encode()

    return apply


def test_a_bundle_that_was_tampered_with_is_refused(bundle: bytes, send: Send, finished: Experiment) -> None:
    faster = changed(bundle, first_request(lambda data: data.update(finished_s=0.001)))
    assert "SHA-256" in refused(send(faster), 422)["detail"] or "as large" in refused(send(faster), 422)["detail"]
    refused(send(bundle[:-30]), 422)
    refused(send(bundle[: len(bundle) // 2]), 422)
    broken = bytearray(bundle)
    broken[len(bundle) // 3] ^= 0xFF
    refused(send(bytes(broken)), 422)
    without = changed(bundle, lambda members: members.pop("runs/0/request.jsonl"))
    assert "other members" in refused(send(without), 422)["detail"]
    assert Experiment.objects.count() == 1


LOADS = {"maximize": "workload.arrival.max_concurrency", "low": 1, "high": 8}
BEST = {"optimize": "charm", "space": {"engine.max_num_seqs": [1, 2]}}
SEALED: list[tuple[Callable[[dict[str, bytes]], None], str]] = [
    (lambda members: members.update({"../../etc/passwd": b"x"}), "no member"),
    (lambda members: members.update({"runs/0/request.jsonl": b"\0" * 60_000_000}), "unpacks"),
    (lambda members: members.update({"runs/0/request.jsonl": b"{oops\n"}), "line 1"),
    (first_request(lambda data: data.update(seq=-1)), "number"),
    (first_request(lambda data: data.update(kind="log")), "line 1"),
    (first_request(lambda data: data.update(token_counts=[1, 2, 3])), "line 1"),
    (first_request(lambda data: data.update(mischief=1)), "mischief"),
    (described(lambda data: data.update(runs=[])), "runs"),
    (described(lambda data: data["runs"][0].update(trial=99)), "trial 99"),
    (described(lambda data: data["runs"][0]["spec"].update(engine={"block_size": -4})), "block_size"),
    (described(lambda data: data.update(runs=data["runs"] * 2)), "two"),
    (described(lambda data: data.update(name="")), "name"),
    (described(lambda data: data["runs"][0].update(summary={"metrics": {"ttft": 3}})), "summary"),
    (described(lambda data: data["runs"][0].update(attempt=None, summary={"reasons": 5})), "summary.reasons"),
    (described(lambda data: data["runs"][0].update(prediction={"metrics": {"ttft": {}}})), "prediction.metrics"),
    (described(lambda data: data["runs"][0].update(imported={"unmeasured": 7})), "imported.unmeasured"),
    (described(lambda data: data["spec"].update(search=LOADS)), "trials.0.settings: lacks workload.arrival.max_conc"),
    (described(lambda data: data["spec"].update(search=BEST, repeats=1)), "search.optimize: no figure is named charm"),
    (described(lambda data: data["runs"][0].update(reason="a\0b")), "runs.0.reason: holds a NUL"),
    (described(lambda data: data["document"].update(question="\ud800")), "half a surrogate pair"),
    (described(lambda data: data["document"].update({"a\0": 1})), "document key: holds a NUL"),
]


def test_a_bundle_with_fitting_hashes_is_read_as_distrustfully(bundle: bytes, send: Send) -> None:
    for change, told in SEALED:
        body = refused(send(changed(bundle, change, sealed=True)), 422)
        assert told in body["detail"], body
    assert Experiment.objects.count() == 1


def test_a_manifest_without_a_hash_is_refused(bundle: bytes, send: Send) -> None:
    def unhashed(members: dict[str, bytes]) -> None:
        manifest = json.loads(members["manifest.json"])
        del manifest["members"]["experiment.json"]["sha256"]
        members["manifest.json"] = json.dumps(manifest).encode()

    assert "states no SHA-256" in refused(send(changed(bundle, unhashed)), 422)["detail"]


def test_ids_in_a_bundle_count_for_nothing(bundle: bytes, send: Send, finished: Experiment, project: Project) -> None:
    def point_elsewhere(data: dict[str, Any]) -> None:
        for run in data["runs"]:
            run["spec"].update(run_id=1, experiment_id=finished.pk)

    before = list(finished.runs.values_list("pk", "summary"))
    response = send(changed(bundle, described(point_elsewhere), sealed=True))
    assert response.status_code == 201, response.content
    made = Experiment.objects.get(pk=response.json()["id"])
    assert {run.spec["run_id"] for run in made.runs.all()} == set(made.runs.values_list("pk", flat=True))
    assert list(finished.runs.values_list("pk", "summary")) == before
