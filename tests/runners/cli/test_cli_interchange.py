"""`import`, `export … bundle` and `replay` against a real web server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foreign_files as files
import pytest
from api_client import member
from cli_terminal import Terminal
from control_plane import team

from experiments.models import Experiment, RequestRecord, Run
from labsite.accounts.models import Project, Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lab(live_server: Any, redis_url: str, terminal: Terminal) -> Terminal:
    project: Project = team()
    caller = member(project, Role.RESEARCHER)
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(caller.token)}
    return terminal


def test_a_file_is_imported_goes_out_as_others_write_it_and_as_a_bundle_that_comes_in_again(
    lab: Terminal, tmp_path: Path
) -> None:
    source = tmp_path / "bench.json"
    source.write_text(json.dumps(files.vllm()))
    made = lab.run("import", str(source), "--json")
    assert made.status == 0, made.err
    experiment = Experiment.objects.get(pk=json.loads(made.out)["id"])
    run = experiment.runs.get()
    bundle, records, again = (tmp_path / name for name in ("b.zip", "r.jsonl", "again.json"))
    assert lab.run("export", str(experiment.pk), "bundle", "-o", str(bundle)).status == 0
    assert lab.run("export", str(run.pk), "aiperf", "--run", "-o", str(records)).status == 0
    assert lab.run("export", str(run.pk), "vllm", "--run", "-o", str(again)).status == 0
    assert len(records.read_text().splitlines()) == 30
    assert json.loads(again.read_text())["completed"] == 30
    for file in (bundle, records, again):
        taken = lab.run("import", str(file), "--name", f"from {file.name}")
        assert taken.status == 0 and "experiment" in taken.out, taken.err
    runs = list(Run.objects.values_list("id", flat=True))
    assert RequestRecord.objects.filter(run_id__in=runs).values("run_id").distinct().count() == len(runs) == 4


def test_wrong_files_and_uses_are_told(lab: Terminal, tmp_path: Path) -> None:
    absent = lab.run("import", str(tmp_path / "absent"))
    assert absent.status == 2 and "can't be read" in absent.err
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(files.vllm(ttfts=["soon"] * 30)))
    refused = lab.run("import", str(wrong))
    assert refused.status == 3 and "ttfts[0]" in refused.err
    assert lab.run("export", "1", "bundle", "--run").status == 2
    assert lab.run("export", "1", "vllm").status == 2
    assert lab.run("replay", "99").status == 3


def test_an_imported_run_can_not_be_replayed(lab: Terminal, tmp_path: Path) -> None:
    source = tmp_path / "bench.json"
    source.write_text(json.dumps(files.vllm()))
    assert lab.run("import", str(source)).status == 0
    refused = lab.run("replay", str(Experiment.objects.get().runs.get().pk), "--allow", "code_revision")
    assert refused.status == 3 and "imported" in refused.err
