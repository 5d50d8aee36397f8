"""The peaks that a measured run is held against."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.execution.peaks import read_peaks
from runners.spec import EngineSpec

CEILINGS = {
    "measured_at": 1.0,
    "matmul": {"by_precision": {"bf16": {"median": 3e11, "best": 4e11}, "int8": {"median": 7e11, "best": 8e11}}},
    "memory_bandwidth": {"by_threads": {"1": {"median": 2e10, "best": 3e10}, "2": {"median": 4e10, "best": 5e10}}},
}


@pytest.fixture
def ceilings(tmp_path: Path) -> Path:
    file = tmp_path / "ceilings.json"
    file.write_text(json.dumps(CEILINGS))
    return file


@pytest.mark.parametrize(("weights", "flops"), [("bf16", 4e11), ("int8", 8e11)])
def test_peaks_are_the_best_rates_in_the_precision_of_the_run(ceilings: Path, weights: str, flops: float) -> None:
    found = read_peaks(ceilings, EngineSpec.model_validate({"weights": weights}))
    assert found is not None
    assert found["flops_per_s"] == flops
    assert found["bytes_per_s"] == 5e10


def test_without_measured_ceilings_there_are_no_peaks(tmp_path: Path, ceilings: Path) -> None:
    assert read_peaks(None, EngineSpec()) is None
    assert read_peaks(tmp_path / "absent.json", EngineSpec()) is None
    ceilings.write_text(json.dumps(CEILINGS | {"matmul": {"by_precision": {"bf16": None}}}))
    assert read_peaks(ceilings, EngineSpec()) is None
    ceilings.write_text("{}")
    assert read_peaks(ceilings, EngineSpec()) is None
