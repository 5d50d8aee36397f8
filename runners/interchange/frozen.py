"""A foreign run as a document and a frozen run of this lab: its load as a workload, what else a spec asks for at its
defaults. Nothing of it can be run again: the engine and the machine are not known.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from runners.interchange.errors import BadFile
from runners.interchange.results import ForeignRun, Load
from runners.spec import RunSpec
from runners.spec.workload import MAX_REQUESTS

NO_HASH = ""
UNNAMED = "unknown"
NEVER_KNOWN = (
    "output_throughput_per_chip",
    "output_tokens_per_usd",
    "cost_per_million_output_tokens",
)
"""Figures that need the number of chips or their price, which no tool's records state."""


def workload_of(load: Load) -> dict[str, Any]:
    """As a document states it. Lengths that the file does not say are one token. Raises BadFile."""
    arrival: dict[str, Any] = {"kind": "closed", "max_concurrency": load.max_concurrency or 1}
    if load.request_rate is not None:
        arrival = {"kind": "open", "request_rate": load.request_rate, "burstiness": load.burstiness}
    if load.num_requests > MAX_REQUESTS:
        raise BadFile("", f"{load.num_requests} requests", f"at most {MAX_REQUESTS} in one run")
    return {
        "kind": "synthetic",
        "input_len": {"dist": "fixed", "tokens": max(round(load.input_tokens or 1), 1)},
        "output_len": {"dist": "fixed", "tokens": max(round(load.output_tokens or 1), 1)},
        "arrival": arrival,
        "num_requests": max(load.num_requests, 1),
        "warmup": {"num_requests": 0},
        "sampling": {"ignore_eos": False},
    }


def document_of(run: ForeignRun, name: str) -> dict[str, Any]:
    return {"name": name, "model": slug_of(run.model), "nodes": {}, "workload": workload_of(run.load), "repeats": 1}


def run_spec(run: ForeignRun, *, run_id: int, experiment_id: int, trial_index: int, revision: str) -> RunSpec:
    """Raises BadFile where the load is none that a workload can state."""
    try:
        return RunSpec.model_validate(
            {
                "run_id": run_id,
                "experiment_id": experiment_id,
                "trial_index": trial_index,
                "repeat": 0,
                "seed": 0,
                "settings": dict(run.settings),
                "model": {"name": slug_of(run.model), "sha256": NO_HASH, "shape": {}},
                "chip_id": "any",
                "engine": {},
                "placement": {},
                "workload": workload_of(run.load),
                "slo": {},
                "cost": {},
                "time_limit_s": 1.0,
                "code_revision": revision,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadFile(where, f"{first['msg']} (the load as the file states it)") from error


def slug_of(model: str) -> str:
    """A model's name as one of ours: `meta-llama/Llama-3.1-8B` as `llama-3-1-8b`."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:60] or UNNAMED
