"""Formats that an experiment can ask for: their bytes, and which of a chip's units compute in them."""

from __future__ import annotations

from typing import get_args

import pytest

from runners.chips import (
    ChipRecord,
    NotModellable,
    attention_flops,
    linear_flops,
    load_catalog,
    record_for_run,
    takes_as_they_lie,
)
from runners.modelled.formats import engine_format
from runners.modelled.profiles import ENGINE_PROFILES, overrides_of
from runners.precision import BYTES_PER_KV, BYTES_PER_WEIGHT, weight_widths
from runners.spec.engine import KvCache, Profile, Weights

CHIPS = {record.chip_id: record for record in load_catalog()}
FORMATS = get_args(Weights)


def chip(name: str) -> ChipRecord:
    return record_for_run(CHIPS[name], allow_speculative=True)


def test_every_format_and_profile_of_a_document_is_known_to_the_model() -> None:
    assert set(BYTES_PER_WEIGHT) == set(FORMATS) and set(BYTES_PER_KV) == set(get_args(KvCache))
    assert set(ENGINE_PROFILES) == set(get_args(Profile))
    for profile in ENGINE_PROFILES.values():
        overrides_of(profile)


@pytest.mark.parametrize("weights", FORMATS)
def test_bytes_are_those_of_the_format(weights: str) -> None:
    widths, fmt = weight_widths(weights, mixture=False), engine_format(weights)
    scales = 0.06 / 8 if weights == "int8" else 0.0  # The runtime's int8 counts its scales for themselves.
    assert widths.dense == widths.routed == pytest.approx(fmt.bits / 8 - scales)
    wide = weight_widths(weights, mixture=True)
    assert wide.dense == (2 if fmt.dense_bits else widths.dense) and wide.routed == widths.routed


@pytest.mark.parametrize(
    ("name", "weights", "units", "native"),
    [
        ("h100-sxm", "fp8", "fp8", True),
        ("a100-80g-sxm", "fp8", "bf16", False),
        ("b200-sxm", "nvfp4", "nvfp4", True),
        ("h100-sxm", "nvfp4", "fp8", False),
        ("mi355x", "mxfp4", "mxfp4", True),
        ("mi355x", "nvfp4", "fp4", True),
        ("h100-sxm", "int4", "bf16", False),
        ("dmatrix-corsair", "mxint8", "mxint8", True),
        ("dmatrix-corsair", "int4", "int8", False),
        ("tensordyne-napier", "lns8", "fp8", True),
        ("h100-sxm", "lns8", "bf16", False),
        ("wse3", "int8", "bf16", False),
        ("groq3-lpu", "int8", "fp8", False),
    ],
)
def test_a_format_runs_on_its_own_units_or_on_the_next_that_the_chip_has(
    name: str, weights: str, units: str, native: bool
) -> None:
    record = chip(name)
    assert linear_flops(record, weights) == (record.dense_tflops[units] or 0) * 1e12  # type: ignore[index]
    assert takes_as_they_lie(record, weights) is native


@pytest.mark.parametrize("weights", FORMATS)
def test_every_chip_computes_in_a_format_or_says_what_it_has(weights: str) -> None:
    for record in CHIPS.values():
        if record.undisclosed() or (record.system and record.system.is_mixed):
            continue
        try:
            assert linear_flops(record, weights) > 0
        except NotModellable as error:
            assert error.field == "engine.weights" and "only " in str(error) and "a chip with one of" in str(error)
            assert not any(record.dense_tflops.get(name) for name in ("bf16", "fp16", "tf32", "fp32"))  # type: ignore[call-overload]
        assert attention_flops(record)
