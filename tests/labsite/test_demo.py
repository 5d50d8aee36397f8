"""What the demonstration submits, and what it says of runs that don't count."""

from __future__ import annotations

from typing import Any

from labsite.demo.__main__ import DEMO, invalid_runs
from runners.document import parse_text, validate_document
from runners.matrix import plan_experiment


def trial(settings: dict[str, Any], valid: bool, *reasons: str) -> dict[str, Any]:
    return {"settings": settings, "runs": [{"id": 7, "valid": valid, "reasons": list(reasons)}]}


def test_runs_that_are_not_valid_are_named_with_their_reasons() -> None:
    good = trial({"engine.weights": "bf16"}, True)
    shared, silent = trial({"engine.weights": "int8"}, False, "node_shared"), trial({}, False)
    assert invalid_runs({"trials": [good, shared, silent]}) == [
        "run 7 (weights int8): node_shared",
        "run 7 (as written): it has no result",
    ]


def test_the_shipped_document_is_twelve_runs_as_the_demonstration_promises() -> None:
    document = parse_text(DEMO.read_text())
    spec, plan = validate_document(document), plan_experiment(document)
    assert spec.matrix == {"engine.weights": ("bf16", "int8"), "engine.max_num_seqs": (1, 8)}
    assert spec.workload.kind == "text" and spec.workload.arrival.kind == "closed"
    assert spec.workload.arrival.max_concurrency == 8
    assert (spec.workload.num_requests or 0) >= 24
    assert len(plan.runs) == 12
