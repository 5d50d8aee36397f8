"""What is said of runs that were imported: their figures as far as they can be known, and how the tool's own differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.models import Run
from runners.interchange.differences import Difference, differences

OWN_TOOL = "inference-lab"
"""By this name goes what another lab measured, imported from its bundle."""


def only_known(summary: dict[str, Any], imported: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of an imported run, computed from its requests, without what those can't tell: such a figure is null,
    and a reason that can't be looked into is left out."""
    metrics = {
        name: {**metric, "value": None, "n": 0, "percentiles": {}} if name in imported["unmeasured"] else metric
        for name, metric in summary["metrics"].items()
    }
    reasons = [reason for reason in summary["reasons"] if reason["code"] not in imported["unjudged"]]
    return {**summary, "metrics": metrics, "reasons": reasons, "valid": not reasons}


def knows_the_runtime(imported: Mapping[str, Any] | None) -> bool:
    """Whether the run's records tell what went on in the server too, and not at its client alone."""
    return imported is None or imported["tool"] == OWN_TOOL


def differences_of(run: Run) -> Sequence[Difference]:
    """The figures of the run's own tool beside ours; none where ours are the tool's."""
    if run.imported is None or not run.imported.get("recomputed") or run.summary is None:
        return []
    return differences(run.imported["figures"], run.summary["metrics"])


def imported_figures(run: Run) -> dict[str, Any]:
    """What the run's page shows of an import: figures that differ from the tool's own, how many do not, its notes."""
    found = differences_of(run)
    apart = [one for one in found if not one.same]
    notes = (run.imported or {}).get("notes", [])
    return {"import_differences": apart, "same_figures": len(found) - len(apart), "import_notes": notes}
