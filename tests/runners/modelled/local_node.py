"""A machine as its agent would have measured it, and steps that it would take under known coefficients."""

from __future__ import annotations

from runners.events import Step
from runners.modelled.coefficients import make_speeds
from runners.modelled.formats import FORMATS
from runners.modelled.local import chip_of, peaks_of, starting_values
from runners.modelled.local_steps import MeasuredSteps, counts_of_step
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.validate import make_spec
from runners.modelled.work import Splitter, price


def rate(best: float) -> dict[str, float]:
    return {"median": 0.9 * best, "best": best, "repeats": 5}


CEILINGS = {
    "measured_at": 1.75e9,
    "chip": "AMD EPYC",
    "memory_bandwidth": {"by_threads": {"1": rate(2e10), "2": rate(3e10)}},
    "matmul": {"by_precision": {"fp32": rate(1.5e11), "bf16": rate(3e11), "int8": rate(6e11)}},
}
FACTS = {"chip": "AMD EPYC", "cpu": {"vendor": "AuthenticAMD"}, "memory": {"usable_bytes": 16_000_000_000}}
CHIP = chip_of(CEILINGS, FACTS)
TRUE = starting_values() | {"memory": 0.5, "gemm": 0.3, "step_s": 4e-3, "sequence_s": 4e-4}
SHAPE = ModelShape.from_mapping(make_spec(4, "bf16", 8).model.shape)
GAP_S = 3e-4
BATCHES = [(d, p, c) for d in (1, 4, 12) for p in (0, 128, 384) for c in (100, 160, 400)]


def step(decodes: int, prompt: int, context: int, index: int, weights: str) -> Step:
    """A step of that batch, as long as the true coefficients make it."""
    running = decodes + (prompt > 0)
    empty = Step(
        index=index, start_s=0.0, duration_s=1.0, prefill_tokens=prompt, decode_tokens=decodes, running=running,
        waiting=0, kv_used_blocks=running, kv_cached_blocks=0, kv_free_blocks=9, kv_used_slots=running * context,
    )  # fmt: skip
    work = Splitter(SHAPE, FORMATS[weights], Parallel(), 16.0).split(counts_of_step(SHAPE, empty))
    seconds = float(price(work, make_speeds(peaks_of(CHIP, weights), TRUE)).duration_s)
    return empty.model_copy(update={"duration_s": seconds})


def run_of(weights: str, batches: list[tuple[int, int, int]] = BATCHES) -> MeasuredSteps:
    """One run that took those batches one after another, with a gap after each step."""
    now_s, steps = 0.0, []
    for index, (decodes, prompt, context) in enumerate(batches):
        one = step(decodes, prompt, context, index, weights).model_copy(update={"start_s": now_s})
        now_s += one.duration_s + GAP_S
        steps.append(one)
    return MeasuredSteps(SHAPE, weights, steps)
