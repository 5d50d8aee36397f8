"""Runs on a virtual clock, each with one thing planted that must hold it up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.analysis.bottleneck import Evidence, gather
from runners import models, shapes
from runners.chips import ChipRecord, load_catalog
from runners.events import AnyEvent, Report, RequestRecord, Step
from runners.load.virtual import run
from runners.modelled.fleet_build import build
from runners.modelled.fleet_facts import system_facts
from runners.modelled.topology import plan_system
from runners.spec import ModelRef, RunSpec

CHIPS: dict[str, ChipRecord] = {chip.chip_id: chip for chip in load_catalog()}


@dataclass(frozen=True)
class Plant:
    """What is planted, and what is to be found. `blocks` are those of the engine's KV cache, where they are to be few
    `also` what may be named as well as `kind`."""

    kind: str
    name: str
    workload: Mapping[str, Any]
    engine: Mapping[str, Any] = field(default_factory=dict)
    placement: Mapping[str, Any] = field(default_factory=dict)
    model: str = "llama-3-8b"
    chip: str = "h100-sxm"
    blocks: int | None = None


def spec_of(plant: Plant, seed: int) -> RunSpec:
    fields = {
        "run_id": 1, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": seed, "settings": {},
        "model": model_of(plant.model),
        "chip_id": plant.chip, "chip": CHIPS[plant.chip].model_dump(mode="json"),
        "chips": {plant.chip: CHIPS[plant.chip].model_dump(mode="json")}, "engine": dict(plant.engine),
        "placement": dict(plant.placement), "workload": load(**plant.workload), "slo": {}, "cost": {},
        "time_limit_s": 900, "code_revision": "test",
    }  # fmt: skip
    spec = RunSpec.model_validate(fields)
    named = spec.placement.chips(plant.chip)
    return spec.model_copy(update={"chips": {name: CHIPS[name].model_dump(mode="json") for name in named}})


def model_of(name: str) -> ModelRef:
    """A registered model or a shape, by its name."""
    if name not in models.REGISTRY:
        return shapes.resolve(name).ref()
    entry = models.get(name)
    return ModelRef(name=entry.name, sha256=entry.sha256, shape=entry.shape)


def load(users: int = 8, prompt: int = 200, answer: int = 60, requests: int = 48, **more: Any) -> dict[str, Any]:
    return {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": users},
        "input_len": {"dist": "uniform", "min_tokens": max(prompt * 3 // 4, 1), "max_tokens": prompt * 5 // 4},
        "output_len": {"dist": "uniform", "min_tokens": max(answer * 3 // 4, 1), "max_tokens": answer * 5 // 4},
        "num_requests": requests,
        "warmup": {"num_requests": 4},
        **more,
    }


def play(plant: Plant, seed: int) -> tuple[RunSpec, Evidence]:
    spec = spec_of(plant, seed)
    plan = plan_system(spec)
    if plant.blocks is not None:
        pools = (
            replace(
                pool,
                kv=replace(pool.kv, num_blocks=plant.blocks, max_sequence_tokens=plant.blocks * spec.engine.block_size),
            )
            for pool in plan.pools
        )
        plan = replace(plan, pools=tuple(pools))
    fleet = build(plan, spec.engine)
    events: list[AnyEvent] = []
    result = run(spec, fleet, events.extend, wall=lambda: 0.0)
    report = Report(
        outcome="succeeded", window_start_s=result.window_start_s, window_end_s=result.window_end_s,
        client=result.client, facts=system_facts(plan, fleet), modelled=True,
    )  # fmt: skip
    return spec, gather(list(_of(events, RequestRecord)), list(_of(events, Step)), report, spec)


def _of(events: list[AnyEvent], kind: type) -> Iterator[Any]:
    return (event for event in events if isinstance(event, kind))


PLANTS = (
    Plant("queue", "one seat for many users", {"users": 16, "prompt": 50}, {"max_num_seqs": 1}),
    Plant(
        "queue",
        "few seats for an open loop",
        {"prompt": 40, "answer": 100, "arrival": {"kind": "open", "request_rate": 40.0}},
        {"max_num_seqs": 2},
    ),
    Plant(
        "prefill_compute", "long prompts, short answers", {"prompt": 12_000, "answer": 8, "users": 8, "requests": 24}
    ),
    Plant(
        "prefill_compute",
        "long prompts in an open loop",
        {"prompt": 6_000, "answer": 10, "arrival": {"kind": "open", "request_rate": 9.0}, "requests": 40},
    ),
    Plant("decode_bandwidth", "few users, long answers", {"users": 4, "prompt": 50, "answer": 300, "requests": 24}),
    Plant("decode_bandwidth", "one user", {"users": 1, "prompt": 100, "answer": 100, "requests": 8}),
    Plant(
        "decode_compute",
        "many users of a slow chip",
        {"users": 64, "prompt": 8, "answer": 60, "requests": 128},
        {"max_num_seqs": 64},
        model="smollm2-135m-instruct",
        chip="generic-2vcpu",
    ),
    Plant("kv_capacity", "a tiny KV pool", {"users": 16, "prompt": 600, "answer": 20}, {"block_size": 8}, blocks=120),
    Plant(
        "kv_capacity",
        "a small KV pool",
        {"users": 24, "prompt": 300, "answer": 16, "requests": 80},
        {"block_size": 8, "max_num_seqs": 24},
        blocks=100,
    ),
    Plant(
        "fragmentation",
        "huge blocks, short sequences",
        {"users": 16, "prompt": 10, "answer": 40},
        {"block_size": 128},
        blocks=3,
    ),
    Plant(
        "fragmentation",
        "large blocks, short sequences",
        {"users": 16, "prompt": 6, "answer": 20, "requests": 100},
        {"block_size": 64},
        blocks=4,
    ),
    Plant(
        "cache_misses",
        "shared prompts and no cache",
        {"prompt": 100, "answer": 8, "shared_prefix": {"groups": 2, "prefix_tokens": 8000}},
        {"prefix_cache": False},
    ),
    Plant(
        "cache_misses",
        "more prefixes than the cache holds",
        {"prompt": 40, "answer": 6, "users": 2, "requests": 60, "shared_prefix": {"groups": 6, "prefix_tokens": 6000}},
        {},
        blocks=420,
    ),
    Plant(
        "preemption",
        "answers that outgrow the cache",
        {"users": 8, "prompt": 16, "answer": 400, "requests": 24},
        {"block_size": 8},
        blocks=120,
    ),
    Plant(
        "host_overhead",
        "a tiny model on a fast chip",
        {"users": 2, "prompt": 20, "answer": 50},
        model="smollm2-135m-instruct",
    ),
    Plant(
        "link",
        "tensor parallel over a slow link",
        {"users": 8, "prompt": 100, "answer": 60},
        {},
        {"tensor_parallel": 4, "link": {"bytes_per_s": 2e8}},
    ),
    Plant(
        "link",
        "KV over a slow link",
        {"users": 4, "prompt": 2000, "answer": 20, "requests": 24},
        {},
        {
            "disaggregate": {
                "kind": "prefill_decode",
                "prefill": {"chip": "h100-sxm"},
                "decode": {"chip": "h100-sxm"},
                "link": {"bytes_per_s": 2e8},
                "stream": "whole",
            }
        },
    ),
)
