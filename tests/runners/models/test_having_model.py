"""A run's model on its node, before the run's clock starts: what is told, and what a cancel leaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import Hub, serving
from tiny_entries import COMMIT, FOLDER, SHAPE, hub_model, left_in

from runners.events import EVENT, Report, Status
from runners.execution.errors import RunFailed
from runners.execution.having_model import have_model
from runners.execution.journal import Journal
from runners.models import ModelEntry
from runners.spec import ModelRef
from runners.spool import SpoolWriter

TINY = hub_model()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serving(Hub(dict(FOLDER), COMMIT)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield hub


def ref(model: ModelEntry = TINY, **changes: Any) -> ModelRef:
    fields = {"name": model.name, "sha256": model.sha256, "shape": SHAPE, "entry": model.to_dict()}
    return ModelRef.model_validate(fields | changes)


def statuses(spool: Path) -> list[Status]:
    events = [EVENT.validate_json(line) for line in spool.read_bytes().splitlines()] if spool.exists() else []
    return [event for event in events if isinstance(event, Status)]


def have(tmp_path: Path, model: ModelRef) -> Path:
    return asyncio.run(have_model(model, tmp_path / "models", Journal(SpoolWriter(tmp_path / "1-1.jsonl"))))


def test_a_fetch_is_told_as_a_phase_of_its_own_and_what_is_here_is_not(hub: Hub, tmp_path: Path) -> None:
    path = have(tmp_path, ref())
    told = statuses(tmp_path / "1-1.jsonl")
    assert {status.phase for status in told} == {"fetching"}
    assert told[0].detail == "fetching tiny: 0 %" and told[-1].detail == "fetching tiny: 100 %"
    assert have(tmp_path, ref()) == path
    assert statuses(tmp_path / "1-1.jsonl") == told


def test_a_fetch_that_fails_fails_the_run_with_the_sources_word_on_retrying(hub: Hub, tmp_path: Path) -> None:
    hub.status = 500
    with pytest.raises(RunFailed, match="owner/tiny") as failure:
        have(tmp_path, ref())
    assert failure.value.retry
    hub.status, hub.error_code = 404, "RepoNotFound"
    with pytest.raises(RunFailed) as failure:
        have(tmp_path, ref())
    assert not failure.value.retry


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entry": None}, "no model is registered as 'tiny'"),
        ({"entry": {"name": "tiny"}}, "can't be had: format"),
        ({"sha256": "0" * 64}, TINY.sha256),
        ({"name": "other"}, "made for other"),
    ],
)
def test_a_run_whose_model_is_not_what_it_names_ends_for_good(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(RunFailed, match=words) as failure:
        have(tmp_path, ref(**changes))
    assert not failure.value.retry


def test_a_full_disk_ends_the_run_for_good_with_the_numbers(hub: Hub, tmp_path: Path) -> None:
    large = TINY.model_copy(update={"files": tuple(file.model_copy(update={"bytes": 2**46}) for file in TINY.files)})
    with pytest.raises(RunFailed, match=r"needs 211,106,232,532,992 bytes there, [\d,]+ are free") as failure:
        have(tmp_path, ref(large))
    assert not failure.value.retry and left_in(tmp_path / "models") == set()


def test_a_cancel_in_mid_file_waits_until_nothing_of_the_model_is_left(hub: Hub, tmp_path: Path) -> None:
    hub.silent_after = 5000

    async def cancel_in_the_middle() -> None:
        journal = Journal(SpoolWriter(tmp_path / "1-1.jsonl"))
        work = asyncio.create_task(have_model(ref(), tmp_path / "models", journal))
        async with asyncio.timeout(30):
            while not downloading(hub):
                await asyncio.sleep(0.05)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancel_in_the_middle())
    assert left_in(tmp_path / "models") == set()


def test_sigterm_ends_a_run_that_is_fetching_within_the_agents_grace(hub: Hub, tmp_path: Path) -> None:
    hub.silent_after = 5000
    process = execution(tmp_path)
    deadline = time.monotonic() + 60
    while not downloading(hub):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM
    assert left_in(tmp_path / "models") == set()
    text = (tmp_path / "1-1.jsonl").read_bytes().splitlines()
    assert not any(isinstance(EVENT.validate_json(line), Report) for line in text)


def downloading(hub: Hub) -> bool:
    return any(path.startswith("GET") and path.endswith("model.safetensors") for path in hub.asked)


def execution(directory: Path) -> subprocess.Popen[bytes]:
    """`runners.execute` of a run with the tiny model, as an agent starts it."""
    spec = {
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 5, "settings": {},
        "model": ref().model_dump(mode="json"), "chip_id": "any", "engine": {"threads": 1}, "placement": {},
        "slo": {}, "cost": {}, "time_limit_s": 300, "code_revision": "test",
        "workload": {"kind": "text", "arrival": {"kind": "closed", "max_concurrency": 1}, "num_requests": 1},
    }  # fmt: skip
    (directory / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "runners.execute", "--spec", str(directory / "spec.json")]
    command += ["--spool", str(directory / "1-1.jsonl"), "--models", str(directory / "models")]
    return subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, env=os.environ)
