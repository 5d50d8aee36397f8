"""Example 12 as it ships, shortened: the built-in engine and llama.cpp's server serve the same weights."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from example_runs import plan

from experiments.engine_offers import engine_faults, offers_of
from experiments.measured_limits import measured_limits
from hardware.messages import OfferedEngine
from runners import models
from runners.engines.listed import parse_engines
from runners.engines.offers import offer_of
from runners.events import AnyEvent, RequestRecord, Step
from runners.execution.journal import Journal
from runners.execution.measured import execute_measured
from runners.matrix import Cell
from runners.metrics import Summary, summarize
from runners.spec import RunSpec
from runners.spool import SpoolWriter

EXAMPLE = "12-built-in-against-llama-cpp"
SERVER = [sys.executable, "-m", "runners.engines.llamacpp_server"]
LISTED = f"""
[managed.llamacpp]
command = {json.dumps([*SERVER, "--model", "{model_path}", "--alias", "{model}", "--port", "{port}", "--parallel",
                       "{max_num_seqs}", "--ctx-size", "{total_tokens}", "--threads", "{threads}"])}
version_command = {json.dumps([*SERVER, "--version"])}
dialect = "llamacpp"
"""  # fmt: skip


class Kept(Journal):
    """A journal that also keeps what it wrote."""

    def __init__(self, writer: SpoolWriter) -> None:
        super().__init__(writer)
        self.events: list[AnyEvent] = []

    def add(self, *events: AnyEvent) -> None:
        super().add(*events)
        self.events += events

    def add_all(self, events: Any) -> None:
        self.add(*events)


def run_of(cell: Cell) -> RunSpec:
    model = models.get(str(cell.spec.model))
    workload = cell.spec.workload.model_copy(update={"num_requests": 20})
    return RunSpec.model_validate(
        {
            "run_id": 1, "experiment_id": 1, "trial_index": cell.index, "repeat": 0, "seed": 3,
            "settings": cell.settings, "chip_id": "any", "time_limit_s": 300, "code_revision": "test",
            "model": {"name": model.name, "sha256": model.sha256, "shape": dict(model.shape)},
            "engine": cell.spec.engine.model_dump() | {"threads": 1}, "placement": {}, "slo": {}, "cost": {},
            "workload": workload.model_dump(),
        }
    )  # fmt: skip


def measure(cell: Cell, folder: Path) -> tuple[list[RequestRecord], list[Step], Summary, dict[str, Any]]:
    folder.mkdir()
    (folder / "engines.toml").write_text(LISTED)
    spec, journal, facts = run_of(cell), Kept(SpoolWriter(folder / "spool")), {}
    report = asyncio.run(
        execute_measured(spec, models.default_models_dir(), journal, facts, engines_file=folder / "engines.toml")
    )
    records = [event for event in journal.events if isinstance(event, RequestRecord)]
    steps = [event for event in journal.events if isinstance(event, Step)]
    return records, steps, summarize(records, steps, report, spec), facts


def test_a_node_that_lists_llama_cpp_takes_every_cell() -> None:
    offered = OfferedEngine.model_validate(offer_of(parse_engines(LISTED)["llamacpp"])).model_dump()
    for cell in plan(EXAMPLE).cells:
        assert not list(measured_limits(cell.spec))
        assert not list(engine_faults(cell.spec, str(cell.spec.model), False, offers_of([offered])))


def test_both_engines_serve_the_same_weights_under_the_same_load(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is in extra `test`")
    at_eight = [cell for cell in plan(EXAMPLE).cells if cell.settings["workload.arrival.max_concurrency"] == 8]
    ours, theirs = (measure(cell, tmp_path / str(cell.settings["engine.kind"])) for cell in at_eight)
    for records, _, summary, facts in (ours, theirs):
        measured = [record for record in records if record.phase == "measured"]
        assert len(measured) == 20 and all(record.status == "ok" for record in measured)
        assert all(record.output_tokens == record.target_output_tokens for record in measured)
        assert not {reason.code for reason in summary.reasons} & {"output_length_mismatch", "cache_contaminated"}
        assert all(summary.metrics[name].value for name in ("output_throughput", "ttft", "tpot", "e2el"))
        assert facts["model"]["sha256"] == models.get("smollm2-135m-instruct").sha256
    lengths = [
        {record.request_id: (record.input_tokens, record.output_tokens) for record in one[0]} for one in (ours, theirs)
    ]
    assert lengths[0] == lengths[1], "the same requests"
    assert ours[1] and not theirs[1]
    for name in ("queue_depth", "running", "kv_use", "step_time", "mfu", "mbu", "idle_share", "kv_fragmentation"):
        assert theirs[2].metrics[name].value is None, f"{name} is not told by llama.cpp, and must be null"
    assert (ours[3]["engine"]["kind"], theirs[3]["engine"]["kind"]) == ("builtin", "managed")
