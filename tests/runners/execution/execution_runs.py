"""What tests of `runners.execute` share: a run's document, and the run as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TypeVar

from runners import models
from runners.chips import load_catalog
from runners.events import EVENT, AnyEvent, Report, Sample
from runners.processes import marked_environment

MODEL = models.get("smollm2-135m-instruct")
Kind = TypeVar("Kind")
TAG = f"test{os.getpid()}"


def spec(**changes: Any) -> dict[str, Any]:
    base = {
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 5, "settings": {},
        "model": {"name": MODEL.name, "sha256": MODEL.sha256, "shape": dict(MODEL.shape)},
        "chip_id": "any", "engine": {"threads": 1}, "placement": {}, "slo": {}, "cost": {},
        "workload": {
            "kind": "text",
            "input_len": {"dist": "fixed", "tokens": 24},
            "output_len": {"dist": "fixed", "tokens": 6},
            "arrival": {"kind": "closed", "max_concurrency": 2},
            "num_requests": 6,
            "warmup": {"num_requests": 2},
        },
        "time_limit_s": 300, "code_revision": "test",
    }  # fmt: skip
    return base | changes


def modelled_spec(**changes: Any) -> dict[str, Any]:
    (chip,) = [record for record in load_catalog() if record.chip_id == "h100-sxm"]
    return spec(chip_id="h100-sxm", chip=chip.model_dump(mode="json"), **changes)


def long(workload: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in workload.items() if key != "num_requests"}
    return rest | {"duration_s": 600}


class Run:
    """One execution in a session of its own, as an agent starts it."""

    def __init__(self, directory: Path, document: Any, *arguments: str, models_dir: Path | None = None) -> None:
        self.spool = directory / "1-1.jsonl"
        (directory / "spec.json").write_text(document if isinstance(document, str) else json.dumps(document))
        self.guard, self.lifeline = os.pipe()
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "runners.execute", "--spec", str(directory / "spec.json"),
                 "--spool", str(self.spool), "--models", str(models_dir or models.default_models_dir()),
                 "--guard-fd", str(self.guard), *arguments],
                pass_fds=[self.guard], start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=marked_environment(TAG),
            )  # fmt: skip
        os.close(self.guard)

    def events(self) -> list[AnyEvent]:
        lines = self.spool.read_bytes().splitlines(keepends=True) if self.spool.exists() else []
        return [EVENT.validate_json(line) for line in lines if line.endswith(b"\n")]

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events() if isinstance(event, kind)]

    def report(self, within_s: float = 120) -> Report:
        assert self.process.wait(within_s) == 0
        (report,) = self.of(Report)
        assert report.events == len(self.events())
        return report

    def wait_until_measuring(self) -> None:
        deadline = time.monotonic() + 120
        while not any(sample.phase == "measured" for sample in self.of(Sample)):
            assert self.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
