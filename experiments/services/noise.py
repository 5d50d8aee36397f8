"""Keeps each measured node's noise floor up to date with its history."""

from __future__ import annotations

from dataclasses import asdict

from experiments.models import NoiseHistory, Run
from experiments.node_noise import measure_history
from hardware.models import NodeKind


def refresh_noise(run_id: int) -> None:
    """Computes again the noise of the node that this valid run ended on; the same runs always give the same. A modelled
    node has none: what its figures may be off by is its cost model's error."""
    ended = Run.objects.filter(pk=run_id, valid=True, final_attempt__node__kind=NodeKind.MEASURED)
    node_id = ended.values_list("final_attempt__node", flat=True).first()
    if node_id is not None:
        metrics = {name: asdict(noise) for name, noise in measure_history(node_id).items()}
        NoiseHistory.objects.update_or_create(node_id=node_id, defaults={"metrics": metrics})
