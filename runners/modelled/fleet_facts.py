"""What the report of a modelled run says of the system that it ran on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runners.modelled.executor import ModelledExecutor
from runners.modelled.fleet import Fleet
from runners.modelled.phases import phase_facts
from runners.modelled.topology import SystemPlan

FIRST_TOKEN = "ttft"


def system_facts(plan: SystemPlan, fleet: Fleet) -> dict[str, Any]:
    """Provenance of the figures, and the system with what went over its links.

    Where there are two pools, the second gives all tokens but the first ones: what is said once is of that one, with
    the first one's error for a first token. Figures of a system have the errors of its pools only if both have one.
    """
    pools = _executors(fleet)
    facts = pools[-1].facts()
    if len(pools) > 1:
        facts |= _joined([pool.facts() for pool in pools])
    return facts | {
        "system": plan.facts(),
        "phases": phase_facts(fleet.phase_sums),
        "energy": {"source": "modelled"},
        "reading_s": fleet.reading_s,
        "transfers": fleet.links.facts() if fleet.links is not None else None,
        "usd_per_hour": plan.usd_per_hour,
    }


def _executors(fleet: Fleet) -> list[ModelledExecutor]:
    """One of each pool."""
    found = [pool[0].engine.executor for pool in fleet.pools]
    return [executor for executor in found if isinstance(executor, ModelledExecutor)]


def _joined(pools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first, last = pools[0], pools[-1]
    calibrated = all(pool["calibration"] == "calibrated" for pool in pools)
    errors = {**last.get("calibration_errors", {})}
    errors.pop(FIRST_TOKEN, None)
    if FIRST_TOKEN in first.get("calibration_errors", {}):
        errors[FIRST_TOKEN] = first["calibration_errors"][FIRST_TOKEN]
    return {
        "calibration": "calibrated" if calibrated else "uncalibrated",
        "calibration_errors": errors if calibrated else {},
        "chip": "+".join(dict.fromkeys(pool["chip"] for pool in pools)),
        "weights_native": all(pool["weights_native"] for pool in pools),
        "peaks": last["peaks"] if first["chip"] == last["chip"] else {},
    }
