"""A measured machine as a chip: its ceilings make the record, and steps of known coefficients give those back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from local_node import CEILINGS, CHIP, FACTS, GAP_S, SHAPE, rate, run_of, step

from runners.modelled.cost import CostModel, DecodeSums
from runners.modelled.facts import family_of
from runners.modelled.local import LocalChipError, chip_of, fit_local, local_tuning
from runners.modelled.local_steps import MeasuredSteps, counts_of_step, gap_between, kinds_of


def seconds_of(cost: CostModel, decodes: int, context: int) -> float:
    return cost.decode_step(DecodeSums(decodes, decodes * context, 0)).duration_s


def test_the_best_rates_become_the_peaks() -> None:
    assert CHIP.dense_tflops == {"fp32": 0.15, "bf16": 0.3, "int8": 0.6}
    assert CHIP.memory.bandwidth_bytes_per_s == 3e10
    assert CHIP.memory.capacity_bytes == 16_000_000_000
    assert CHIP.name == "AMD EPYC" and CHIP.year == 2025 and not CHIP.speculative


def test_it_is_of_no_family_of_published_results() -> None:
    assert family_of(CHIP.chip_id) == "other"


@pytest.mark.parametrize(
    ("ceilings", "facts", "named"),
    [
        (CEILINGS | {"chip": "Another"}, FACTS, "'Another'"),
        (CEILINGS | {"matmul": {"by_precision": {"int8": {"best": 1e11}, "bf16": None}}}, FACTS, "matmul"),
        (CEILINGS | {"memory_bandwidth": {}}, FACTS, "memory_bandwidth.by_threads"),
        (CEILINGS, FACTS | {"memory": {}}, "facts.memory.usable_bytes"),
        ({}, {}, "matmul"),
        (CEILINGS | {"matmul": 1, "memory_bandwidth": {"by_threads": 2}}, FACTS, "matmul"),
        (CEILINGS | {"matmul": {"by_precision": {"bf16": rate(1.0)}}}, FACTS, r"dense_tflops\.bf16: .*allowed"),
    ],
)
def test_what_is_missing_is_named(ceilings: dict[str, Any], facts: dict[str, Any], named: str) -> None:
    with pytest.raises(LocalChipError, match=named) as caught:
        chip_of(ceilings, facts)
    assert "allowed" in str(caught.value) and caught.value.retry is False


def test_steps_are_timed_alike_after_a_fit() -> None:
    runs = [run_of("bf16"), run_of("int8")]
    fit = fit_local(CHIP, runs)
    for weights, run in zip(("bf16", "int8"), runs, strict=True):
        cost = CostModel(CHIP, SHAPE, weights)
        cost.tuning = local_tuning(CHIP, weights, fit)
        for one in run.steps:
            if not one.prefill_tokens:
                modelled = seconds_of(cost, one.decode_tokens, one.kv_used_slots // one.running)
                assert modelled == pytest.approx(one.duration_s + GAP_S, rel=0.1)
    assert fit.error.median < 0.1 and fit.steps == 2 * len(runs[0].steps) and fit.runs == 2


def test_a_fit_is_told_with_its_error_and_what_it_rests_on() -> None:
    fit = fit_local(CHIP, [run_of("bf16")])
    tuning = local_tuning(CHIP, "bf16", fit)
    assert tuning.state == "calibrated" and "27 steps of 1 run(s)" in tuning.fitted_on
    assert tuning.errors["latency"]["median"] == fit.error.median


def test_without_steps_a_machine_is_uncalibrated() -> None:
    tuning = local_tuning(CHIP, "bf16")
    assert tuning.state == "uncalibrated" and tuning.errors == {}
    with pytest.raises(LocalChipError, match="steps"):
        fit_local(CHIP, [MeasuredSteps(SHAPE, "bf16", [])])


def test_a_format_that_no_run_was_in_shares_what_all_have() -> None:
    fit = fit_local(CHIP, [run_of("bf16")])
    speeds = local_tuning(CHIP, "int8", fit).speeds
    assert speeds.step_s == local_tuning(CHIP, "bf16", fit).speeds.step_s
    assert speeds.flops_per_s == pytest.approx(6e11 * fit.values[""]["gemm"])


def test_a_step_that_was_held_up_moves_nothing() -> None:
    usual = [step(4, 0, 160, index, "bf16") for index in range(9)]
    held_up = [*usual, usual[0].model_copy(update={"duration_s": 30.0})]
    (kind,) = kinds_of(MeasuredSteps(SHAPE, "bf16", held_up))
    assert kind.cycle_s == pytest.approx(usual[0].duration_s) and kind.n == 10


def test_prompts_of_one_step_do_not_see_each_other() -> None:
    """Three prompts of 128 attend to 128 keys each at most, not to 384."""
    together = step(1, 384, 128, 0, "bf16").model_copy(update={"running": 4})
    alone = step(1, 128, 128, 0, "bf16").model_copy(update={"running": 2})
    decode = step(1, 0, 128, 0, "bf16")
    flops = [counts_of_step(SHAPE, one).attention_flops for one in (together, alone, decode)]
    assert flops[0] - flops[2] == pytest.approx(3 * (flops[1] - flops[2]), rel=0.02)


def test_gaps_that_wait_for_work_are_none_of_the_servers() -> None:
    run = run_of("bf16", [(1, 0, 100)] * 4)
    late = run.steps[3].model_copy(update={"start_s": run.steps[3].start_s + 5.0})
    assert gap_between([*run.steps[:3], late]) == pytest.approx(GAP_S)
    assert gap_between(run.steps[:1]) == 0.0 and math.isfinite(gap_between([]))
