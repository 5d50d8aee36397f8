"""The whole way of a registered model: described, registered over REST, fetched by a real node, and run there."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_lab import REPOSITORY, Lab

from experiments.models import Attempt, Run, StatusRecord
from experiments.services import cancel_run
from hardware.models import Node
from labsite.accounts.tokens import create_token
from runners.model_adding import Naming, add_from_hub, add_local
from runners.models import ModelEntry
from runners.models.checked import ignore_progress

sys.path[:0] = [str(REPOSITORY / "tests" / "runners" / name) for name in ("models", "runtime")]
from hub_server import Hub, serving  # noqa: E402
from tiny_chat_model import write_tiny_chat_model  # noqa: E402
from tiny_entries import COMMIT, left_in  # noqa: E402
from tiny_folder import write_tiny_folder  # noqa: E402

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    folder = write_tiny_folder(tmp_path / "repository", shards=True)
    with serving(Hub({path.name: path.read_bytes() for path in folder.iterdir()}, COMMIT)) as hub:
        for name, value in {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hub"), "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        yield hub


@pytest.fixture
def node(lab: Lab, hub: Hub, tmp_path: Path) -> Node:
    """This machine, with an empty models folder and a shelf of the operator's."""
    lab.models_dir = tmp_path / "models"
    lab.env |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hub"), "NO_PROXY": "127.0.0.1"}
    return lab.join_measured("n1")[0]


def register(lab: Lab, entry: ModelEntry) -> None:
    token = create_token(lab.user, "test").plain
    request = urllib.request.Request(
        f"{lab.url}/api/v1/models",
        data=json.dumps(entry.to_dict()).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.status == 201


def submit(lab: Lab, node: Node, model: str) -> Run:
    workload = {
        "kind": "text",
        "input_len": {"dist": "fixed", "tokens": 16},
        "output_len": {"dist": "fixed", "tokens": 4},
        "arrival": {"kind": "closed", "max_concurrency": 2},
        "num_requests": 4,
        "warmup": {"num_requests": 1},
    }
    return lab.submit(node, model=model, workload=workload, engine={"threads": 1})


def finish(lab: Lab, run: Run) -> dict[str, Any]:
    """The facts of the run's report, which must be good."""
    lab.wait(lambda: lab.state_of(run) in ("succeeded", "failed"), 180)
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    report = lab.attempt(run).report
    assert report is not None
    facts: dict[str, Any] = report["facts"]
    return facts


def told(run: Run) -> list[str]:
    """How far the fetch was, as the run's record has it."""
    rows = StatusRecord.objects.filter(run_id=run.pk, kind="status").order_by("seq").values_list("data", flat=True)
    return [row["detail"] for row in rows if row["phase"] == "fetching"]


def test_a_model_of_the_hub_is_fetched_by_its_node_unless_the_run_is_cancelled(
    lab: Lab, hub: Hub, node: Node, tmp_path: Path
) -> None:
    entry = add_from_hub(
        "owner/tiny", None, None, Naming("tiny"), tmp_path / "elsewhere", ignore_progress, ignore_progress
    )
    register(lab, entry)
    hub.silent_after = 1000
    stopped = submit(lab, node, "tiny")
    lab.wait(lambda: Attempt.objects.filter(run=stopped, phase="fetching").exists(), 120)
    assert lab.attempt(stopped).phase_detail.startswith("fetching tiny: ")
    cancel_run(lab.user, stopped)
    lab.wait(lambda: lab.state_of(stopped) == "cancelled")
    assert left_in(lab.models_dir) == set()

    hub.silent_after = None
    facts = finish(lab, first := submit(lab, node, "tiny"))
    assert facts["model"] == {"name": "tiny", "sha256": entry.sha256, "random_weights": False}
    assert told(first)[-1] in ("fetching tiny: 100 %", "checking tiny: 100 %")
    assert lab.attempt(first).fetched_at is not None
    lab.wait_for(lambda: {"name": "tiny", "sha256": entry.sha256} in Node.objects.get(pk=node.pk).models_held)

    finish(lab, second := submit(lab, node, "tiny"))
    assert told(second) == [] and lab.attempt(second).fetched_at is None


def test_a_file_of_the_nodes_disk_runs_where_it_lies_and_not_from_elsewhere(
    lab: Lab, node: Node, tmp_path: Path
) -> None:
    path = lab.models_dir / "mine" / "tiny.gguf"
    path.parent.mkdir(parents=True)
    register(lab, add_local(write_tiny_chat_model(path), Naming("tiny"), lab.models_dir, ignore_progress))
    other = write_tiny_chat_model(tmp_path / "other.gguf", seed=8)
    register(lab, add_local(other, Naming("other"), tmp_path / "elsewhere", ignore_progress))
    finish(lab, submit(lab, node, "tiny"))
    refused = submit(lab, node, "other")
    lab.wait(lambda: lab.state_of(refused) == "failed", 120)
    refused.refresh_from_db()
    assert "outside of the directories that this machine allows" in refused.reason and refused.attempts_made == 1
