"""What a cause suggests is an experiment that could be submitted, and changes what bears on the cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from modelled_plants import CHIPS, Plant, spec_of

from experiments.analysis.bottleneck import CAUSES, suggest
from runners.matrix import plan_experiment

LONG_STEP = {"max_num_seqs": 16, "max_num_batched_tokens": 16}
ENGINES: tuple[Mapping[str, Any], ...] = (
    {},
    {"max_num_seqs": 1, "prefix_cache": False, "block_size": 8},
    LONG_STEP,
    {"weights": "int8", "kv_cache": "fp8", "block_size": 128},
    {"scheduler": {"chunked_prefill": False}, "max_num_batched_tokens": 4096},
)
PLACEMENTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"replicas": 2},
    {"tensor_parallel": 4, "link": {"bytes_per_s": 1e9}},
    {"disaggregate": {"kind": "prefill_decode", "prefill": {"chip": "h100-sxm"}, "decode": {"chip": "h100-sxm"}}},
)
ARRIVALS = ({"kind": "closed", "max_concurrency": 1}, {"kind": "open", "request_rate": 9000.0})


def document(plant: Plant) -> dict[str, Any]:
    spec = spec_of(plant, 1)
    return {
        "name": "planted", "model": plant.model, "nodes": {}, "chip": plant.chip, "engine": dict(plant.engine),
        "placement": dict(plant.placement), "workload": spec.workload.model_dump(mode="json", exclude_none=True),
    }  # fmt: skip


@pytest.mark.parametrize("kind", CAUSES)
def test_every_suggestion_of_a_cause_is_an_experiment_of_several_trials(kind: str) -> None:
    assert "h100-sxm" in CHIPS
    suggested = 0
    for engine in ENGINES:
        for placement in PLACEMENTS:
            for arrival in ARRIVALS:
                plant = Plant(kind, "", {"arrival": arrival}, engine, placement)
                for modelled in (True, False):
                    change = suggest(kind, spec_of(plant, 1), modelled=modelled)
                    if change:
                        suggested += 1
                        cells = plan_experiment(document(plant) | {"matrix": change}).cells
                        assert len(cells) == len(next(iter(change.values()))) >= 2
    assert suggested


def test_the_setting_that_is_compared_bears_on_the_cause() -> None:
    spec = spec_of(Plant("", "", {}, {"block_size": 128, "prefix_cache": False, "max_num_seqs": 4}), 1)
    assert suggest("queue", spec, modelled=True) == {"engine.max_num_seqs": [4, 8, 16]}
    assert suggest("fragmentation", spec, modelled=True) == {"engine.block_size": [128, 32, 16, 8]}
    assert suggest("cache_misses", spec, modelled=True) == {"engine.prefix_cache": [False, True]}
    assert suggest("preemption", spec, modelled=True) == {"engine.max_num_seqs": [4, 2, 1]}
    assert suggest("kv_capacity", spec, modelled=True) == {"engine.kv_cache": ["bf16", "fp8"]}
    assert suggest("client", spec, modelled=False) == {"workload.arrival.max_concurrency": [8, 4]}
