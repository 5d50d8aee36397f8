"""How long a first token takes in a closed loop: the replayed queue, and what an engine adds to it.

TTFT = fixed + burst x TTFT of the first wave + (1 - burst) x TTFT of the rest. The waves come from the real scheduler
(replay.py), in which a step that prefills takes `slow` times as long as in the large steps that throughput was fitted
on. `fixed` is what happens outside of steps (HTTP, tokenizer, a step just missed); `burst` is the share of a test's
requests that arrive at its start all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from runners.modelled.cases import JITTERED, Case, decode_counts
from runners.modelled.coefficients import Key, Peaks, make_speeds, values_of
from runners.modelled.replay import ClosedLoop, Replay, StepSeconds
from runners.modelled.work import Counts, Splitter, price

MAX_REPLAYED = 512
"""Larger loops are replayed at this size: their first wave drains in proportion to its length."""
TOKENS_PER_STEP = 8192
PREFILL_POOL_TOKENS_PER_STEP = 16_384
FIXED_S, FIXED_SPREAD, ENGINE_FIXED_SPREAD = 0.08, 0.7, 0.5
SLOW, SLOW_SPREAD, ENGINE_SLOW_SPREAD = 2.0, 0.5, 0.4
SLOWNESSES = (0.7, 1.2, 2.0, 3.4)
"""Where a fit replays each loop; between them it interpolates."""
Array = npt.NDArray[np.float64]
BURST, BURST_SPREAD = 0.1, 0.05
ROW_SPREAD = 0.3


@dataclass(frozen=True, slots=True)
class Waves:
    """Mean seconds to the first token of the requests that arrived together, and of those after them."""

    first_s: float
    rest_s: float


def step_timer(case: Case, splitter: Splitter, parameters: Mapping[Key, float]) -> StepSeconds:
    """Seconds of any step of the case's model, chip and engine."""
    values = values_of(case, parameters)
    chip = case.chip
    peaks = Peaks(chip.bytes_per_s, case.flops_per_s, case.wide_flops_per_s, chip.link_bytes_per_s)
    speeds, scope = make_speeds(peaks, values), values["scope"]

    def step_s(counts: Counts) -> float:
        return float(scope * price(splitter.split(counts), speeds).duration_s)

    return step_s


def replay_waves(case: Case, parameters: Mapping[Key, float], slow: float) -> Waves:
    """The closed loop of a case, of one data-parallel group, through the scheduler."""
    load, layout = case.load, case.layout
    pool = layout.prefill or layout.decode
    in_flight = (load.concurrency or 1.0) * layout.decode.dp * layout.decode.replicas
    asked = max(round(in_flight / (pool.dp * pool.replicas)), 1)
    concurrency = min(asked, MAX_REPLAYED)
    rounds = 10 if concurrency <= 16 else 5 if concurrency <= 64 else 3 if concurrency <= 256 else 2
    elsewhere = None
    if layout.prefill is not None:
        elsewhere = step_timer(case, case.splitter, parameters)(decode_counts(case.shape, load))
    step_s = step_timer(case, case.prefill_splitter, parameters)
    loop = ClosedLoop(
        concurrency=concurrency,
        num_requests=rounds * concurrency,
        input_tokens=int(load.input_tokens / JITTERED),
        output_tokens=int(load.output_tokens / JITTERED),
        max_num_batched_tokens=max(TOKENS_PER_STEP if elsewhere is None else PREFILL_POOL_TOKENS_PER_STEP, concurrency),
        max_num_seqs=concurrency,
        decode_elsewhere_s=elsewhere,
        slow_prefill=slow,
    )
    times = Replay(case.shape, loop, step_s).run()
    first = float(np.mean(times[:concurrency]))
    rest = float(np.mean(times[concurrency:])) if len(times) > concurrency else first
    return Waves(first * asked / concurrency, rest)


def slowness_of(case: Case, fitted: Mapping[str, float]) -> float:
    """How much longer than in large steps the case's prefill takes."""
    return SLOW * _factor("slow", case, fitted)


def first_token_figure(case: Case, waves: Waves, fitted: Mapping[str, float]) -> float:
    """TTFT of the case in its row's unit. A group that was not fitted falls back to the kind of system, then to all."""
    burst = min(BURST * float(np.exp(fitted.get("burst", 0.0))), 1.0)
    fixed_s = FIXED_S * _factor("fixed", case, fitted)
    return case.scale * (fixed_s + burst * waves.first_s + (1 - burst) * waves.rest_s)


def fit_first_tokens(cases: Sequence[Case], waves: Sequence[Sequence[Waves]]) -> dict[str, float]:
    """Logarithms of factors, by name. `waves[i][j]` are those of case i at SLOWNESSES[j]."""
    spreads: dict[str, float] = {"fixed": FIXED_SPREAD, "slow": SLOW_SPREAD, "burst": BURST_SPREAD}
    for case in cases:
        for group in _groups(case):
            spreads[f"fixed|{group}"] = ENGINE_FIXED_SPREAD
            spreads[f"slow|{group}"] = ENGINE_SLOW_SPREAD
    names = list(spreads)
    place = {name: number for number, name in enumerate(names)}
    fixed_of, slow_of = (
        np.array([[place[name], *(place[f"{name}|{group}"] for group in _groups(case))] for case in cases])
        for name in ("fixed", "slow")
    )
    widths = np.array([spreads[name] for name in names])
    wanted = np.log(np.array([case.value for case in cases], float))
    scale = np.array([case.scale for case in cases])
    first = np.log([[wave.first_s for wave in row] for row in waves])
    rest = np.log([[wave.rest_s for wave in row] for row in waves])

    def residuals(parameters: Array) -> Array:
        burst = min(BURST * float(np.exp(parameters[place["burst"]])), 1.0)
        fixed_s = FIXED_S * np.exp(parameters[fixed_of].sum(axis=1))
        slow = np.log(SLOW) + parameters[slow_of].sum(axis=1)
        mean_s = burst * np.exp(_between(slow, first)) + (1 - burst) * np.exp(_between(slow, rest))
        off = (np.log(scale * (fixed_s + mean_s)) - wanted) / ROW_SPREAD
        robust = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1))
        return np.concatenate([robust, parameters / widths])

    found = least_squares(residuals, np.zeros(len(names)), max_nfev=40)
    return {name: float(value) for name, value in zip(names, found.x, strict=True)}


def _between(slow: Array, at_places: Array) -> Array:
    """Each row of `at_places`, given at SLOWNESSES, interpolated at its `slow`; all are logarithms."""
    places = np.log(SLOWNESSES)
    left = np.clip(np.searchsorted(places, slow) - 1, 0, len(places) - 2)
    share = np.clip((slow - places[left]) / (places[left + 1] - places[left]), 0.0, 1.0)
    rows = np.arange(len(slow))
    return np.asarray(at_places[rows, left] * (1 - share) + at_places[rows, left + 1] * share)


def _groups(case: Case) -> tuple[str, str]:
    kind = "disaggregated" if case.layout.prefill is not None else "aggregated"
    return kind, f"{kind}|{case.engine}"


def _factor(name: str, case: Case, fitted: Mapping[str, float]) -> float:
    groups = sum(fitted.get(f"{name}|{group}", 0.0) for group in _groups(case))
    return float(np.exp(fitted.get(name, 0.0) + groups))
