"""Every chip of the catalog in a modelled run of a small model: it ends, and its figures lie inside physics.

A record of a rack or of pooled wafers runs as one of its chips, as many as a placement takes; one of unlike chips as a
system of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from runners.chips import (
    ChipRecord,
    NotModellable,
    band_of,
    in_sram,
    load_catalog,
    one_chip,
    read_record,
    record_for_run,
    refuse_architecture,
)
from runners.events import AnyEvent, RequestRecord, Step
from runners.load.virtual import run
from runners.modelled.cost import CostModelError
from runners.modelled.fleet_build import build
from runners.modelled.topology import plan_system
from runners.spec import CostSpec, EngineSpec, ModelRef, PlacementSpec, RunSpec, SloSpec, WorkloadSpec

CATALOG = {record.chip_id: record for record in load_catalog()}
NAMED = [
    "a100-80g-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200", "gb300-nvl72", "rubin-vr200", "vr-nvl72",
    "groq-lpu-v1", "groq3-lpu", "groq3-lpx", "wse3", "wse3-x4", "trainium2", "trainium3", "mi300x", "mi325x",
    "mi355x", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7-ironwood", "gaudi3", "arc-b580", "arc-pro-b60",
    "xeon-spr-8480", "xeon-emr-8592", "xeon-gnr-6980p", "apple-m1-max", "apple-m2-ultra", "apple-m3-ultra",
    "apple-m4-max", "apple-m5-max", "maia200", "jalapeno", "dmatrix-corsair", "dmatrix-raptor",
    "majestic-prometheus", "tensordyne-napier", "etched-sohu",
]  # fmt: skip
DISCLOSED = sorted(name for name, record in CATALOG.items() if not record.speculative)
STANDS_IN = ["dmatrix-raptor", "etched-sohu", "jalapeno", "majestic-prometheus", "tensordyne-napier"]
NEVER = ["composite-rubin-lpx", "composite-trainium-wse", "qualcomm-ai200"]
SHAPE: dict[str, Any] = {
    "layers": 4, "hidden_size": 512, "heads": 8, "kv_heads": 4, "head_dim": 64, "ffn": 1536, "vocab_size": 8192,
    "max_model_len": 1024, "tied_embeddings": True,
}  # fmt: skip
LAYER_WEIGHTS = 512 * 64 * (2 * 8 + 2 * 4) + 3 * 512 * 1536
WEIGHTS = 4 * LAYER_WEIGHTS + 512 * 8192
"""Elements of the matrices that a step with a sampled token reads, counted here and not by the cost model."""
NARROW = {"groq3-lpu", "groq3-lpx", "dmatrix-corsair", "dmatrix-raptor", "tensordyne-napier"}


def play(record: ChipRecord, weights: str, others: Iterable[ChipRecord] = (), *, guess: bool = False,
         **placement: Any) -> list[AnyEvent]:  # fmt: skip
    workload = {
        "kind": "synthetic",
        "input_len": {"dist": "uniform", "min_tokens": 20, "max_tokens": 60},
        "output_len": {"dist": "fixed", "tokens": 12},
        "arrival": {"kind": "closed", "max_concurrency": 3},
        "num_requests": 6,
        "warmup": {"num_requests": 0},
    }
    spec = RunSpec(
        run_id=1, experiment_id=1, trial_index=0, repeat=0, seed=5, settings={},
        model=ModelRef(name="small", sha256="0", shape=SHAPE), chip_id=record.chip_id,
        chips={one.chip_id: one.model_dump(mode="json") for one in (record, *others)},
        chip=record.model_dump(mode="json"), engine=EngineSpec.model_validate({"weights": weights, "max_num_seqs": 4}),
        placement=PlacementSpec.model_validate(placement), workload=WorkloadSpec.model_validate(workload),
        slo=SloSpec(), cost=CostSpec(), time_limit_s=900, code_revision="test", allow_speculative=guess,
    )  # fmt: skip
    events: list[AnyEvent] = []
    run(spec, build(plan_system(spec), spec.engine), events.extend, wall=lambda: 1.7e9)
    return events


def weights_of(record: ChipRecord) -> str:
    return "int8" if record.chip_id in NARROW else "bf16"


def check_physics(record: ChipRecord, events: Iterable[AnyEvent], weights: str) -> None:
    """No step is faster than the chip's fastest units and its whole bandwidth allow, and none of its tokens is lost."""
    told = list(events)
    finished = [event for event in told if isinstance(event, RequestRecord)]
    assert [one.output_tokens for one in finished if one.status == "ok"] == [12] * 6
    bytes_per_weight = {"bf16": 2, "int8": 1}[weights]
    record = one_chip(record)
    bandwidth = record.memory.bandwidth_bytes_per_s
    fastest = max(rate for rate in record.dense_tflops.values() if rate is not None) * 1e12
    assert bandwidth is not None
    steps = [event for event in told if isinstance(event, Step)]
    for step in steps:
        tokens = step.prefill_tokens + step.decode_tokens
        assert step.duration_s >= 2 * 4 * LAYER_WEIGHTS * tokens / fastest * 0.999
        assert step.duration_s >= 4 * LAYER_WEIGHTS * bytes_per_weight / bandwidth * 0.999
    decoding = [step for step in steps if step.decode_tokens]
    assert decoding
    assert all(step.duration_s >= WEIGHTS * bytes_per_weight / bandwidth * 0.999 for step in decoding)


def test_every_chip_that_people_ask_about_is_in_the_catalog() -> None:
    assert set(NAMED) <= set(CATALOG)
    assert len(CATALOG) >= 73


def test_a_chip_is_either_disclosed_or_stood_in_for_or_never_run() -> None:
    assert sorted(set(CATALOG) - set(DISCLOSED)) == sorted([*STANDS_IN, *NEVER])


@pytest.mark.parametrize("chip_id", DISCLOSED)
def test_a_disclosed_chip_completes_a_run_inside_physics(chip_id: str) -> None:
    record = CATALOG[chip_id]
    weights = weights_of(record)
    check_physics(record, play(record, weights), weights)


@pytest.mark.parametrize("chip_id", STANDS_IN)
def test_an_undisclosed_chip_runs_only_where_speculation_is_allowed_and_says_its_band(chip_id: str) -> None:
    record = CATALOG[chip_id]
    with pytest.raises(NotModellable, match=f"{chip_id}: its vendor has not disclosed .*allow_speculative: true"):
        record_for_run(record, allow_speculative=False)
    standing_in = record_for_run(record, allow_speculative=True)
    weights = weights_of(record)
    check_physics(standing_in, play(record, weights, guess=True), weights)
    band = band_of(standing_in)
    assert band is not None and band["fields"] and band["low_x"] < 1 < band["high_x"] and band["basis"]
    assert standing_in.speculative


@pytest.mark.parametrize(
    ("composite", "disaggregate"),
    [
        ("composite-rubin-lpx", {"kind": "attention_ffn", "attention": {"chip": "vr-nvl72"},
                                 "ffn": {"chip": "groq3-lpx", "count": 4}}),
        ("composite-trainium-wse", {"kind": "prefill_decode", "prefill": {"chip": "trainium3", "count": 2},
                                    "decode": {"chip": "wse3"}}),
    ],
)  # fmt: skip
def test_a_system_of_unlike_chips_runs_as_its_parts(composite: str, disaggregate: dict[str, Any]) -> None:
    whole = CATALOG[composite].system
    named = PlacementSpec.model_validate({"disaggregate": disaggregate}).chips("any")
    assert whole is not None and {part.chip_id for part in whole.parts} == set(named)
    records = [CATALOG[chip_id] for chip_id in named]
    weights = "int8" if NARROW & set(named) else "bf16"
    events = play(records[0], weights, records[1:], disaggregate=disaggregate)
    finished = [event for event in events if isinstance(event, RequestRecord)]
    assert [one.output_tokens for one in finished if one.status == "ok"] == [12] * 6
    assert all(event.bound and event.duration_s > 0 for event in events if isinstance(event, Step))


def test_a_chip_runs_out_of_its_sram_where_its_record_says_so() -> None:
    record = in_sram(CATALOG["dmatrix-corsair"])
    check_physics(record, play(record, "int8"), "int8")


@pytest.mark.parametrize("chip_id", NEVER)
def test_a_record_that_no_step_can_be_timed_by_is_refused_with_or_without_speculation(chip_id: str) -> None:
    for allowed in (False, True):
        with pytest.raises(NotModellable, match=chip_id):
            record_for_run(CATALOG[chip_id], allow_speculative=allowed)


def test_a_stand_in_never_takes_the_place_of_what_is_disclosed() -> None:
    sohu = CATALOG["etched-sohu"]
    data = sohu.model_dump(mode="json")
    data["speculation"]["figures"]["memory.capacity_bytes"] = 1e12
    assert record_for_run(read_record(data), True).memory.capacity_bytes == sohu.memory.capacity_bytes


def test_a_chip_that_is_disclosed_but_for_its_power_is_not_speculative_until_it_is_allowed() -> None:
    ironwood = CATALOG["tpu-v7-ironwood"]
    assert record_for_run(ironwood, False).tdp_w is None
    guessed = record_for_run(ironwood, True)
    band = band_of(guessed)
    assert guessed.tdp_w == 900 and guessed.speculative and band is not None and band["fields"] == ["tdp_w"]


def test_a_chip_for_transformers_alone_refuses_a_model_with_other_layers() -> None:
    sohu = CATALOG["etched-sohu"]
    refuse_architecture(sohu, SHAPE)
    refuse_architecture(CATALOG["h100-sxm"], {**SHAPE, "attention_layers": 1})
    with pytest.raises(NotModellable, match="transformers only, and 1 of this model's 4 layers attend"):
        refuse_architecture(sohu, {**SHAPE, "attention_layers": 1})


@pytest.mark.parametrize("chip_id", sorted(NARROW))
def test_a_chip_without_wide_units_refuses_16_bit_weights_and_says_what_it_has(chip_id: str) -> None:
    record = CATALOG[chip_id]
    with pytest.raises(CostModelError, match=f"{chip_id}: dense_tflops has no units for bf16 weights, only (fp8|int8)"):
        play(record, "bf16", guess=True)
