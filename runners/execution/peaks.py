"""What the node can do at most in the precision of a run, from the ceilings that its agent measured once.

MFU and MBU of a measured run are held against these, never against a vendor's peak.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runners.spec import EngineSpec


def read_peaks(ceilings_file: Path | None, engine: EngineSpec) -> dict[str, Any] | None:
    """`{"flops_per_s", "bytes_per_s", "source"}`, best rates in the weights' precision; None where not measured."""
    if ceilings_file is None or not ceilings_file.exists():
        return None
    ceilings = json.loads(ceilings_file.read_text())
    product = ceilings.get("matmul", {}).get("by_precision", {}).get(engine.weights)
    bandwidths = [rate["best"] for rate in ceilings.get("memory_bandwidth", {}).get("by_threads", {}).values() if rate]
    if product is None or not bandwidths:
        return None
    return {
        "flops_per_s": product["best"],
        "bytes_per_s": max(bandwidths),
        "source": "ceilings measured on the node",
        "measured_at": ceilings.get("measured_at"),
    }
