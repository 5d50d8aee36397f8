"""Each command against a real web server: what it does, what it prints, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
from contextlib import suppress
from typing import Any

import pyarrow.parquet as pq
import pytest
from api_client import member
from cli_terminal import Terminal
from control_plane import document, live_attempt, ready_node, store_report, submit, team
from node_events import step, until

from experiments.models import Attempt, Experiment, Run, StepRecord
from experiments.services import claim, finish_attempt, place_runs
from labsite.accounts.models import Project, Role

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = "an \x1b[31mexperiment"


@pytest.fixture
def project() -> Project:
    return team()


@pytest.fixture
def lab(live_server: Any, redis_url: str, project: Project, terminal: Terminal) -> Terminal:
    """A terminal that is signed in as an operator, on a lab with one node."""
    ready_node("alpha", project=project)
    caller = member(project, Role.OPERATOR)
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(caller.token)}
    return terminal


def run_next(*, valid: bool = True) -> Run:
    """Plays the node for the run that it was given; its figures are set, not measured."""
    place_runs()
    run = Run.objects.get(state="assigned")
    attempt = live_attempt(run)
    claim(attempt.node, run.pk, attempt.number)
    StepRecord.objects.create(
        run_id=run.pk, attempt=1, seq=1, data=step(0).model_dump(mode="json"), index=0, start_s=1.0
    )
    store_report(attempt)
    finish_attempt(attempt.pk)
    figure = {"value": 12.5 + run.repeat, "unit": "tok/s", "n": 4, "percentiles": {}}
    reasons = [] if valid else ["errors_over_1pct"]
    summary = {"metrics": {"output_throughput": figure}, "reasons": [], "valid": valid, "modelled": False}
    Run.objects.filter(pk=run.pk).update(valid=valid, reasons=reasons, summary=summary)
    return run


def test_sign_in_is_tried_before_it_is_kept(lab: Terminal) -> None:
    url, token = lab.env.pop("LAB_URL"), lab.env.pop("LAB_TOKEN")
    wrong = lab.process("login", url, given="lab_wrong")
    assert (wrong.status, wrong.out) == (3, "")
    assert lab.run("list").status == 2
    assert url in lab.good("login", url, given=f"{token}\n").out
    assert lab.good("list").out.strip() == "none"
    lab.good("logout")
    assert lab.run("list").status == 2


def test_a_labs_home_is_enough_to_sign_in(lab: Terminal) -> None:
    kept = {"url": lab.env.pop("LAB_URL"), "token": lab.env.pop("LAB_TOKEN"), "username": "a", "password": "b"}
    (lab.home / "lab").mkdir()
    assert lab.run("login", "--home", lab.home / "lab").status == 2
    (lab.home / "lab" / "credentials.json").write_text(json.dumps(kept))
    lab.good("login", "--home", lab.home / "lab")
    assert lab.good("nodes", "--json").json[0]["slug"] == "alpha"


def test_a_document_is_checked_and_submitted_once_for_each_key(lab: Terminal) -> None:
    text = json.dumps(document())
    axis = "matrix.engine.max_num_seqs=[1, 2]"
    checked = lab.good("validate", "-", "--set", "repeats=2", "--set", axis, given=text)
    assert "valid: 2 trials, 4 runs" in checked.out
    refused = lab.run("validate", "-", "--set", "engine.max_num_seqs=0", given=text)
    assert refused.status == 1
    assert "engine.max_num_seqs" in refused.out and "allowed: at least 1" in refused.out
    more = lab.good("validate", "-", "--set", "repeats={until: {metric: ttft, interval: 0.1, max: 9}}", given=text)
    assert "at most 9" in more.out
    made = lab.good("submit", "-", "--idempotency-key", "k", "--json", given=text).json
    again = lab.good("submit", "-", "--idempotency-key", "k", "--json", given=text).json
    assert made["id"] == again["id"]
    other = lab.run("submit", "-", "--idempotency-key", "k", "--set", "repeats=2", given=text)
    assert other.status == 3
    assert "another document" in other.err
    # No such name is taken any more; one may have been kept from before.
    Experiment.objects.update(name=HOSTILE)
    listed = lab.good("list").out
    assert "\x1b" not in listed
    assert "an  [31mexperiment" in listed


def test_a_faulty_document_is_refused_field_by_field(lab: Terminal) -> None:
    said = lab.run("submit", "-", "--set", "engine.weights=int3", "--json", given=json.dumps(document()))
    assert (said.status, said.out) == (3, "")
    told = json.loads(said.err)
    assert [fault["field"] for fault in told["errors"]] == ["engine.weights"]
    assert told["http_status"] == 422
    assert not Experiment.objects.exists()


def test_an_experiment_is_paused_resumed_edited_cloned_deleted_and_restored(lab: Terminal, project: Project) -> None:
    first = submit(project).pk
    lab.good("pause", first)
    assert lab.good("show", first, "--json").json["state"] == "paused"
    lab.good("resume", first)
    lab.good("edit", first, "--name", "renamed", "--priority", "5", "--tag", "a", "--tag", "b")
    changed = lab.good("list", "--tag", "a", "--sort", "-priority", "--json").json
    assert [(one["id"], one["name"], one["priority"], one["tags"]) for one in changed] == [
        (first, "renamed", 5, ["a", "b"])
    ]
    clone = lab.good("clone", first, "--set", "repeats=2", "--name", "second", "--json").json
    assert (clone["cloned_from"], clone["name"], len(clone["trials"][0]["runs"])) == (first, "second", 2)
    lab.good("delete", first)
    assert [one["id"] for one in lab.good("list", "--json").json] == [clone["id"]]
    assert lab.run("show", first).status == 3
    assert [one["id"] for one in lab.good("list", "--deleted", "--json").json] == [first]
    lab.good("restore", first)
    assert "cancelled" in lab.good("cancel", clone["id"]).out
    run = clone["trials"][0]["runs"][0]["id"]
    assert lab.good("show", run, "--run", "--json").json["state"] == "cancelled"


def test_all_is_listed_however_many_pages_that_takes(lab: Terminal, project: Project) -> None:
    user = submit(project).owner
    Experiment.objects.bulk_create(
        Experiment(project=project, owner=user, name=f"e{n}", document={}, spec={}) for n in range(230)
    )
    assert len(lab.good("list", "--json").json) == 50
    assert len(lab.good("list", "--all", "--json").json) == 231
    assert len(lab.good("runs", "--state", "queued", "--json").json) == 1
    assert lab.run("list", "--sort", "size").status == 3


def test_waiting_ends_with_the_experiment_and_says_how_it_went(lab: Terminal, project: Project) -> None:
    good = submit(project).pk
    assert lab.run("wait", good, "--timeout", "0").status == 5
    watching = lab.start("watch", good, "--json")
    run_next()
    out, err = watching.communicate(timeout=60)
    assert watching.returncode == 0, err
    assert json.loads(out)["state"] == "done"
    bad = submit(project).pk
    run_next(valid=False)
    said = lab.run("wait", bad)
    assert said.status == 1
    assert "errors_over_1pct" in said.out


def interrupted(process: subprocess.Popen[str], tries: int = 4) -> tuple[str, str]:
    """What it said until it ended. Python drops an interrupt that comes while an object is being finalized: it is sent
    again, as a person would."""
    for _ in range(tries - 1):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=20)
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=20)


def test_an_interrupt_ends_the_waiting_and_not_the_experiment(lab: Terminal, project: Project) -> None:
    experiment = submit(project).pk
    waiting = lab.start("watch", experiment)
    assert waiting.stderr is not None
    place_runs()
    assert "assigned" in waiting.stderr.readline()
    out, err = interrupted(waiting)
    assert (waiting.returncode, out, "Traceback" in err) == (130, "", False)
    assert Experiment.objects.get(pk=experiment).state == "active"


def test_submit_and_watch_tells_each_run_as_it_changes(lab: Terminal) -> None:
    (lab.home / "a.json").write_text(json.dumps(document()))
    watching = lab.start("submit", "a.json", "--watch", "--set", "name=mine")
    until(lambda: Experiment.objects.filter(name="mine").exists(), 60)
    run_next()
    out, err = watching.communicate(timeout=60)
    assert watching.returncode == 0, err
    assert "on alpha: valid" in err
    assert "mine" in out


def test_trials_of_several_experiments_are_compared(lab: Terminal, project: Project) -> None:
    one = submit(project, matrix={"engine.max_num_seqs": [1, 2]}).pk
    other = submit(project).pk
    for _ in range(3):
        run_next()
    table = lab.good("compare", one).out
    assert "Output throughput, tok/s" in table
    assert "max_num_seqs 1" in table
    assert "1 of 1" in table
    several = lab.good("compare", one, other, "--json").json
    assert [trial["experiment_id"] for trial in several["trials"]] == [one, one, other]
    assert lab.run("compare", one, "--metric", "beauty").status == 2


def test_a_modelled_trial_says_so_beside_its_figures(lab: Terminal, project: Project) -> None:
    experiment = submit(project).pk
    run = run_next()
    Attempt.objects.get(run=run).node.__class__.objects.filter(slug="alpha").update(kind="modelled")
    assert "as written (modelled" in lab.good("compare", experiment).out
    assert "alpha (modelled)" in lab.good("show", experiment).out
    assert "alpha (modelled)" in lab.good("show", run.pk, "--run").out


def test_records_are_exported_to_a_file_or_to_standard_output(lab: Terminal, project: Project) -> None:
    experiment = submit(project, repeats=2).pk
    early = lab.process("export", experiment, "steps", "-o", "-")
    assert (early.status, "2 runs have not ended" in early.err) == (0, True)
    run = run_next()
    rows = list(csv.DictReader(io.StringIO(lab.good("export", experiment, "steps", "-o", "-").out, newline="")))
    assert [(row["run_id"], row["modelled"]) for row in rows] == [(str(run.pk), "false")]
    made = lab.good("export", experiment, "-f", "parquet", "--json").json
    assert made["file"] == f"experiment-{experiment}-an-experiment-runs.parquet"
    assert pq.read_table(lab.home / made["file"]).num_rows == 2
    assert lab.run("export", experiment, "-f", "parquet").status == 2
    lab.good("export", experiment, "-f", "parquet", "--force")
    lines = lab.good("export", run.pk, "steps", "--run", "-f", "jsonl", "-o", "-").out.splitlines()
    assert len(lines) == 1
    refused = lab.run("export", run.pk, "steps", "--run", "--attempt", "7", "-o", "none.csv")
    assert (refused.status, (lab.home / "none.csv").exists()) == (3, False)
    unwritable = lab.run("export", experiment, "-o", "absent/folder.csv")
    assert (unwritable.status, "No such file" in unwritable.err) == (2, True)
