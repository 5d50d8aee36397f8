"""A modelled run of a system, from its frozen spec to the spool and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners import shapes
from runners.chips import load_catalog
from runners.events import EVENT, Report, Step
from runners.execution.errors import RunFailed
from runners.execution.journal import Journal
from runners.execution.modelled import execute_modelled
from runners.spec import LinkSpec, RunSpec
from runners.spool import SpoolReader, SpoolWriter

CHIPS = {chip.chip_id: chip.model_dump(mode="json") for chip in load_catalog()}
SMALL = {
    "kind": "synthetic",
    "input_len": {"dist": "fixed", "tokens": 300},
    "output_len": {"dist": "uniform", "min_tokens": 1, "max_tokens": 40},
    "arrival": {"kind": "closed", "max_concurrency": 8},
    "num_requests": 24,
}
TWO_POOLS = {
    "disaggregate": {
        "kind": "prefill_decode",
        "prefill": {"chip": "trainium3", "count": 2},
        "decode": {"chip": "h200-sxm", "count": 1},
    }
}


def make_spec(placement: dict[str, Any], *chips: str, model: str = "llama-3-8b", **changes: Any) -> RunSpec:
    fields = {
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 1, "settings": {},
        "model": {"name": model, "sha256": "0", "shape": shapes.get(model).to_mapping(), "random_weights": True},
        "chip_id": chips[0], "chip": CHIPS[chips[0]], "chips": {chip: CHIPS[chip] for chip in chips},
        "engine": {}, "placement": placement, "workload": SMALL, "slo": {}, "cost": {},
        "time_limit_s": 60, "code_revision": "test",
    }  # fmt: skip
    return RunSpec.model_validate(fields | changes)


def execute(spec: RunSpec, spool: Path) -> tuple[Report, list[Any]]:
    journal = Journal(SpoolWriter(spool))
    report = execute_modelled(spec, journal, {})
    journal.close_with(report)
    return report, [EVENT.validate_json(line) for line in SpoolReader(spool).read(1_000_000, 1 << 30)]


def test_two_pools_on_two_kinds_of_chips_report_both_and_what_went_between(tmp_path: Path) -> None:
    report, events = execute(make_spec(TWO_POOLS, "trainium3", "h200-sxm"), tmp_path / "1-1.jsonl")
    assert report.outcome == "succeeded" and report.modelled
    facts = report.facts
    assert facts["chip"] == "trainium3+h200-sxm" and facts["system"]["chips"] == 3
    assert facts["transfers"]["count"] > 0 and set(facts["phases"]) == {"prefill", "decode"}
    assert {event.engine for event in events if isinstance(event, Step)} == {"prefill-0", "prefill-1", "decode-0"}
    assert isinstance(events[-1], Report) and events[-1].facts == facts


def test_one_engine_has_a_system_of_one_and_no_transfers(tmp_path: Path) -> None:
    report, events = execute(make_spec({}, "h100-sxm"), tmp_path / "1-1.jsonl")
    assert report.facts["system"]["chips"] == 1 and report.facts["transfers"] is None
    assert report.facts["calibration"] == "calibrated" and report.facts["calibration_errors"]
    assert {event.engine for event in events if isinstance(event, Step)} == {None}


def test_a_pool_without_a_known_error_leaves_the_system_without_one(tmp_path: Path) -> None:
    placement = {"disaggregate": {**TWO_POOLS["disaggregate"], "prefill": {"chip": "wse3", "count": 1}}}
    report, _ = execute(make_spec(placement, "wse3", "h200-sxm"), tmp_path / "1-1.jsonl")
    assert report.facts["calibration"] == "uncalibrated" and report.facts["calibration_errors"] == {}


def test_stand_ins_of_any_chip_make_the_run_speculative(tmp_path: Path) -> None:
    placement = {"disaggregate": {**TWO_POOLS["disaggregate"], "prefill": {"chip": "jalapeno", "count": 1}}}
    spec = make_spec(placement, "h200-sxm", "jalapeno", allow_speculative=True)
    report, _ = execute(spec, tmp_path / "1-1.jsonl")
    assert report.facts["speculative"]["low_x"] < 1 < report.facts["speculative"]["high_x"]


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (make_spec({"tensor_parallel": 3}, "h100-sxm"), "32 heads"),
        (make_spec(TWO_POOLS, "trainium3"), "h200-sxm is no chip of the run"),
        (make_spec({"tensor_parallel": 1}, "h100-sxm", model="llama-3-70b"), "do not fit"),
        (make_spec({}, "jalapeno"), "not disclosed"),
    ],
)
def test_what_no_system_can_do_ends_the_run_with_the_figure_and_no_retry(
    spec: RunSpec, named: str, tmp_path: Path
) -> None:
    with pytest.raises(RunFailed, match="can't be modelled") as raised:
        execute(spec, tmp_path / "1-1.jsonl")
    assert named in str(raised.value) and not raised.value.retry


def test_a_link_so_slow_that_the_run_would_never_end_ends_it_before_it_fills_the_disk(tmp_path: Path) -> None:
    spec = make_spec({"tensor_parallel": 2}, "h100-sxm")
    link = LinkSpec.model_construct(bytes_per_s=1e-9, latency_s=None)  # of a lab that still took such
    spec = spec.model_copy(update={"placement": spec.placement.model_copy(update={"link": link})})
    with pytest.raises(RunFailed, match="virtual time") as raised:
        execute(spec, tmp_path / "1-1.jsonl")
    assert not raised.value.retry
    assert len(SpoolReader(tmp_path / "1-1.jsonl").read(1_000_000, 1 << 30)) < 20
