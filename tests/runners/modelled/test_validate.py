"""Calibrating on measured steps: coefficients that are known give steps, and the steps give them back."""

from __future__ import annotations

import pytest

from runners.events import Step
from runners.modelled.coefficients import make_speeds
from runners.modelled.facts import family_of
from runners.modelled.formats import FORMATS
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.validate import (
    Measured,
    calibrate_locally,
    counts_of_step,
    local_chip,
    make_spec,
    peaks_of,
    predict,
    starting_values,
)
from runners.modelled.work import Splitter, price

CHIP = local_chip().model_copy(update={"dense_tflops": {"bf16": 0.1, "int8": 0.1}})
TRUE = starting_values() | {"memory": 0.5, "gemm": 0.3, "step_s": 4e-3, "sequence_s": 2e-4}


def step(decodes: int, prompt: int, context: int, index: int) -> Step:
    running = decodes + (prompt > 0)
    empty = Step(
        index=index, start_s=0.0, duration_s=1.0, prefill_tokens=prompt, decode_tokens=decodes, running=running,
        waiting=0, kv_used_blocks=running, kv_cached_blocks=0, kv_free_blocks=9, kv_used_slots=running * context,
        preempted=0, cached_tokens=0,
    )  # fmt: skip
    spec = make_spec(4, "bf16", 8)
    shape = ModelShape.from_mapping(spec.model.shape)
    work = Splitter(shape, FORMATS["bf16"], Parallel(), 16.0).split(counts_of_step(shape, empty))
    seconds = float(price(work, make_speeds(peaks_of(CHIP), TRUE)).duration_s)
    return empty.model_copy(update={"duration_s": seconds})


STEPS = [step(decodes, prompt, context, index)
         for index, (decodes, prompt, context) in enumerate(
             (d, p, c) for d in (1, 4, 12) for p in (0, 128, 384) for c in (100, 160, 400))]  # fmt: skip


def test_steps_of_known_coefficients_are_timed_alike_after_the_fit() -> None:
    spec = make_spec(4, "bf16", 8)
    run = Measured(spec, {}, STEPS)
    values = calibrate_locally(CHIP, [run, Measured(make_spec(4, "int8", 8), {}, STEPS[:1])])["bf16"]
    shape = ModelShape.from_mapping(spec.model.shape)
    splitter = Splitter(shape, FORMATS["bf16"], Parallel(), 16.0)
    for one in STEPS:
        again = price(splitter.split(counts_of_step(shape, one)), make_speeds(peaks_of(CHIP), values)).duration_s
        assert float(again) == pytest.approx(one.duration_s, rel=0.15)


def test_a_modelled_run_of_the_same_spec_gives_the_same_metrics_as_are_measured() -> None:
    found = predict(CHIP, make_spec(4, "bf16", 8), TRUE)
    assert found.keys() == {"throughput", "tpot", "ttft_p50"}
    # Four users, each a token a step: the throughput is below their number over a step's time.
    assert 0 < found["throughput"] < 4 / found["tpot"] * 1.01
    assert found["ttft_p50"] > found["tpot"]


def test_this_machine_is_of_no_family_of_published_results() -> None:
    assert family_of(CHIP.chip_id) == "other"
