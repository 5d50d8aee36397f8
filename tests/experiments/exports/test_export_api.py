"""GET /runs/{id}/export/… and /experiments/{id}/export/…: who may, what is in the file, and in which pieces."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import live_attempt, ready_node, submit, team
from node_events import request, sample, step
from web_process import web_process

from experiments.exports import records, table
from experiments.exports.build import RECORD_KINDS
from experiments.exports.records import Source, record_pieces
from experiments.models import Attempt, Experiment, LogLine, RequestRecord, Run, Sample, StepRecord
from experiments.services import claim, place_runs
from labsite.accounts.models import AuditEntry, Project, Role
from runners.events import Log

pytestmark = [
    pytest.mark.django_db,
    # Django's test client reads a stream whole; that a real server does not is tested here too.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume"),
]

FORMULA = '=HYPERLINK("http://x")'


@pytest.fixture
def project() -> Project:
    return team()


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


def ended(run: Run, **report: Any) -> Attempt:
    """The run with one attempt that has ended, as the recorder and the services leave it."""
    attempt = live_attempt(run)
    Attempt.objects.filter(pk=attempt.pk).update(state="succeeded", report={"outcome": "succeeded", **report})
    Run.objects.filter(pk=run.pk).update(state="succeeded", final_attempt=attempt, valid=True)
    attempt.node.state = "online"
    attempt.node.save()
    return attempt


@pytest.fixture
def attempt(project: Project) -> Attempt:
    """An ended run with five requests (one with a formula for an error), three steps, a sample and a log line."""
    ready_node()
    experiment = submit(project, name="Ünïcode / ../ name", matrix={"engine.weights": ["int8"]})
    place_runs()
    found = live_attempt(Run.objects.get(experiment=experiment))
    claim(found.node, found.run_id, found.number)
    store(found, RequestRecord, [request(i, token_times_s=[1.1, 1.2], token_counts=[1, 2]) for i in range(4)])
    store(found, RequestRecord, [request(4, error=FORMULA)], first=5)
    store(found, StepRecord, [step(i) for i in range(3)])
    store(found, Sample, [sample(0.25)])
    store(found, LogLine, [Log(wall_s=1.0, level="info", source="node", message='a\nb,"c"')])
    return ended(found.run)


def store(attempt: Attempt, kind: type[Any], events: list[Any], first: int = 1) -> None:
    for seq, event in enumerate(events, first):
        data = event.model_dump(mode="json")
        columns = {name: data.get(name) for name in ("index", "phase", "status", "sent_s", "t_s", "start_s", "level")}
        fields = {name: columns[name] for name in columns if name in {field.name for field in kind._meta.fields}}
        kind.objects.create(run_id=attempt.run_id, attempt=attempt.number, seq=seq, data=data, **fields)


def content(response: Any) -> bytes:
    assert response.status_code == 200, response.content
    return b"".join(response)


def csv_rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_only_people_with_a_token_may(attempt: Attempt) -> None:
    assert_people_only("GET", f"/runs/{attempt.run_id}/export/steps.csv")
    assert_people_only("GET", f"/experiments/{attempt.run.experiment_id}/export/runs.csv")


def test_what_belongs_to_another_project_is_not_there(attempt: Attempt) -> None:
    stranger = member()
    refused(stranger.get(f"/runs/{attempt.run_id}/export/steps.csv"), 404)
    refused(stranger.get(f"/experiments/{attempt.run.experiment_id}/export/runs.csv"), 404)


@pytest.mark.parametrize("name", ["steps.xlsx", "secrets.csv", "runs.csv", "steps.csv?attempt=0"])
def test_an_unknown_kind_format_or_attempt_is_refused(caller: Caller, attempt: Attempt, name: str) -> None:
    assert refused(caller.get(f"/runs/{attempt.run_id}/export/{name}"), 422)["errors"]


def test_an_attempt_that_never_was_is_not_there(caller: Caller, attempt: Attempt) -> None:
    refused(caller.get(f"/runs/{attempt.run_id}/export/steps.csv?attempt=2"), 404)


def test_the_file_has_a_safe_name_and_is_not_kept_on_the_way(caller: Caller, attempt: Attempt) -> None:
    response = caller.get(f"/experiments/{attempt.run.experiment_id}/export/steps.csv")
    expected = f'attachment; filename="experiment-{attempt.run.experiment_id}-unicode-name-steps.csv"'
    assert response["Content-Disposition"] == expected
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Cache-Control"] == "private, no-store"
    assert response["X-Content-Type-Options"] == "nosniff"


def test_every_kind_holds_the_records_in_every_format(caller: Caller, attempt: Attempt) -> None:
    counts = {"requests": 5, "samples": 1, "steps": 3, "log": 1}
    for kind in RECORD_KINDS:
        path = f"/runs/{attempt.run_id}/export/{kind}"
        lines = [json.loads(line) for line in content(caller.get(f"{path}.jsonl")).splitlines()]
        columns = pq.read_table(pa.BufferReader(content(caller.get(f"{path}.parquet"))))
        assert len(lines) == counts[kind]
        assert columns.to_pylist() == lines
        rows = csv_rows(content(caller.get(f"{path}.csv")))
        assert [list(row) for row in rows] == [list(line) for line in lines]
        assert [row["seq"] for row in rows] == [str(line["seq"]) for line in lines]
        assert all((line["run_id"], line["attempt"], line["modelled"]) == (attempt.run_id, 1, False) for line in lines)


def test_a_list_is_json_in_a_cell_and_a_formula_is_text(caller: Caller, attempt: Attempt) -> None:
    rows = csv_rows(content(caller.get(f"/runs/{attempt.run_id}/export/requests.csv")))
    assert json.loads(rows[0]["token_times_s"]) == [1.1, 1.2]
    assert (rows[0]["first_token_s"], rows[0]["error"]) == ("", "")
    assert rows[4]["error"] == f"'{FORMULA}"


def test_parquet_says_whose_rows_these_are(caller: Caller, attempt: Attempt) -> None:
    found = pq.read_table(pa.BufferReader(content(caller.get(f"/runs/{attempt.run_id}/export/steps.parquet"))))
    words = {key.decode(): value.decode() for key, value in found.schema.metadata.items()}
    assert words["run_id"] == str(attempt.run_id)
    assert words["experiment"] == "Ünïcode / ../ name"
    assert (words["figures"], words["node"], words["attempt"]) == ("measured", attempt.node.slug, "1")
    assert words["lab_revision"] and words["lab_version"]


def test_modelled_rows_say_so(caller: Caller, attempt: Attempt) -> None:
    attempt.node.kind = "modelled"
    attempt.node.save()
    lines = content(caller.get(f"/runs/{attempt.run_id}/export/steps.jsonl")).splitlines()
    assert all(json.loads(line)["modelled"] is True for line in lines)
    (run,) = csv_rows(content(caller.get(f"/experiments/{attempt.run.experiment_id}/export/runs.csv")))
    assert run["modelled"] == "true"


def test_a_run_that_goes_on_is_exported_by_attempt_alone(caller: Caller, project: Project) -> None:
    ready_node()
    run = submit(project).runs.get()
    assert "no attempt yet" in refused(caller.get(f"/runs/{run.pk}/export/steps.csv"), 409)["detail"]
    place_runs()
    store(live_attempt(run), StepRecord, [step(0)])
    assert "attempt=1" in refused(caller.get(f"/runs/{run.pk}/export/steps.csv"), 409)["detail"]
    assert len(csv_rows(content(caller.get(f"/runs/{run.pk}/export/steps.csv?attempt=1")))) == 1


def test_only_the_final_attempt_counts(caller: Caller, attempt: Attempt) -> None:
    second = Attempt.objects.create(run=attempt.run, number=2, node=attempt.node, state="succeeded")
    Run.objects.filter(pk=attempt.run_id).update(final_attempt=second)
    store(second, StepRecord, [step(7)])
    rows = csv_rows(content(caller.get(f"/runs/{attempt.run_id}/export/steps.csv")))
    assert [(row["attempt"], row["index"]) for row in rows] == [("2", "7")]
    assert len(csv_rows(content(caller.get(f"/runs/{attempt.run_id}/export/steps.csv?attempt=1")))) == 3


def test_an_experiment_holds_its_ended_runs_and_counts_the_others(caller: Caller, attempt: Attempt) -> None:
    experiment: Experiment = attempt.run.experiment
    trial = attempt.run.trial
    Run.objects.create(experiment=experiment, trial=trial, repeat=1, position=1, spec={})
    response = caller.get(f"/experiments/{experiment.pk}/export/requests.jsonl")
    assert (response["Lab-Runs"], response["Lab-Runs-Left-Out"]) == ("1", "1")
    assert len(content(response).splitlines()) == 5


def test_a_run_is_a_row_with_its_settings_and_figures(caller: Caller, attempt: Attempt) -> None:
    figure = {"value": 12.5, "unit": "tok/s", "n": 4, "percentiles": {}}
    Run.objects.filter(pk=attempt.run_id).update(
        summary={"metrics": {"output_throughput": figure}}, valid=False, reasons=["errors_over_1pct"]
    )
    path = f"/experiments/{attempt.run.experiment_id}/export/runs"
    found = pq.read_table(pa.BufferReader(content(caller.get(f"{path}.parquet")))).to_pylist()
    (row,) = found
    assert (row["settings.engine.weights"], row["output_throughput_tok_per_s"], row["output_throughput_n"]) == (
        "int8", 12.5, 4,
    )  # fmt: skip
    assert (row["valid"], json.loads(row["invalid_reasons"])) == (False, ["errors_over_1pct"])
    assert row["created_at"].tzinfo is not None


def test_an_export_is_noted(caller: Caller, attempt: Attempt) -> None:
    caller.get(f"/runs/{attempt.run_id}/export/steps.csv")
    entry = AuditEntry.objects.get(action="run.export")
    assert (entry.object_id, entry.detail) == (str(attempt.run_id), {"kind": "steps", "format": "csv"})


def test_a_piece_is_bounded_in_rows_and_in_bytes(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(attempt.run_id, attempt.number, False)
    monkeypatch.setattr(records, "MOST_ROWS", 2)
    assert [len(piece) for piece in record_pieces("requests", [source])] == [2, 2, 1]
    monkeypatch.setattr(records, "MOST_ROWS", table.MOST_ROWS)
    monkeypatch.setattr(records, "MOST_BYTES", 1)
    assert [len(piece) for piece in record_pieces("requests", [source])] == [1] * 5


@pytest.mark.django_db(transaction=True)
def test_a_server_sends_while_it_reads_and_is_free_when_the_reader_leaves(
    attempt: Attempt, caller: Caller, process_env: dict[str, str], tmp_path: Path
) -> None:
    times = [0.001 * token for token in range(3000)]
    rows = [request(i, token_times_s=times, token_counts=[1] * len(times)) for i in range(300)]
    RequestRecord.objects.bulk_create(
        RequestRecord(run_id=attempt.run_id, attempt=1, seq=seq, data=row.model_dump(mode="json"), index=seq,
                      phase="measured", status="ok", sent_s=1.0)
        for seq, row in enumerate(rows, 100)
    )  # fmt: skip
    with web_process(process_env, tmp_path / "web.log") as web:
        url = f"http://{web.host}/api/v1/runs/{attempt.run_id}/export/requests"
        headers = {"Authorization": f"Bearer {caller.token}"}
        # More often than the server has connections: each reader leaves after its first bytes.
        for _ in range(12):
            with httpx.stream("GET", f"{url}.jsonl", headers=headers, timeout=20) as response:
                assert next(response.iter_bytes())
        whole = httpx.get(f"{url}.parquet", headers=headers, timeout=60)
        assert pq.read_table(pa.BufferReader(whole.content)).num_rows == 305
        assert "must consume" not in (tmp_path / "web.log").read_text()
