"""Reads of a node's noise: the runs of its history, what is kept of them, and rows for its page.

Equal settings are those of one frozen spec and one revision of the code: what a change of the code does is no noise.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from experiments.analysis.compare import COMPARED, flatten_metrics
from experiments.analysis.noise import HistoricRun, NodeNoise, measure_noise
from experiments.models import NoiseHistory, Run
from experiments.settings_key import settings_key
from runners.display import digits

Noise = Mapping[str, NodeNoise]
# The newest runs of a node, of which its noise is computed.
RUNS = 300
SHOWN = ("output_throughput", "ttft", "ttft_p95", "tpot", "itl_p95", "e2el", "goodput", "energy_per_output_token")
REPEATS_SHOWN = 3


@dataclass(frozen=True)
class NoiseRow:
    metric: str
    within: str
    between: str
    floor: str
    runs: int
    settings: int
    experiments: int
    newest: dt.datetime


def measure_history(node_id: int, *, before: dt.datetime | None = None) -> dict[str, NodeNoise]:
    """By metric, from the node's newest valid runs, of those that ended before that time."""
    runs = Run.objects.filter(final_attempt__node=node_id, valid=True, ended_at__isnull=False)
    counted = runs.filter(ended_at__lt=before) if before else runs
    rows = counted.order_by("-ended_at").values_list("spec", "experiment_id", "ended_at", "summary")[:RUNS]
    history = [
        HistoricRun(
            f"{settings_key(spec)} {spec.get('code_revision')}",
            experiment_id,
            ended_at.astimezone(dt.UTC).isoformat(),
            flatten_metrics(summary or {}),
        )
        for spec, experiment_id, ended_at, summary in rows.iterator(chunk_size=50)
        if ended_at is not None
    ]
    return measure_noise(history, COMPARED)


def noise_of(node_ids: Collection[int]) -> dict[int, dict[str, NodeNoise]]:
    """What is kept, by node, by metric; of modelled nodes and those without repeats nothing."""
    kept = NoiseHistory.objects.filter(node__in=node_ids).values_list("node_id", "metrics")
    return {node_id: {name: NodeNoise(**one) for name, one in metrics.items()} for node_id, metrics in kept}


def noise_rows(node_id: int) -> list[NoiseRow]:
    found = noise_of([node_id]).get(node_id, {})
    return [_row(metric, found[metric]) for metric in SHOWN if metric in found]


def _row(metric: str, noise: NodeNoise) -> NoiseRow:
    return NoiseRow(
        metric,
        _percent(noise.within),
        _percent(noise.between),
        _percent(noise.floor(REPEATS_SHOWN, across=True)),
        noise.runs,
        noise.settings,
        noise.experiments,
        dt.datetime.fromisoformat(noise.newest),
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{digits(100 * share)} %"
