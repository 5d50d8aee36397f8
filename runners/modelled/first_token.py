"""How long a first token takes in a closed loop: the replayed queue, and what an engine adds to it.

TTFT = fixed + slow x (burst x TTFT of the first wave + (1 - burst) x TTFT of the rest). The waves come from the real
scheduler (replay.py). `fixed` is what happens outside of steps (HTTP, tokenizer, a step just missed); `slow` is how
much longer a prefill takes alone than as a part of the large steps that throughput was fitted on; `burst` is the share
of a test's requests that arrive at its start all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from runners.modelled.cases import Case, decode_counts
from runners.modelled.coefficients import Key, Peaks, keys_of, make_speeds
from runners.modelled.coefficients import BY_NAME as COEFFICIENTS
from runners.modelled.replay import ClosedLoop, Replay, StepSeconds
from runners.modelled.work import Counts, Splitter, price

MAX_REPLAYED = 512
"""Larger loops are replayed at this size: their first wave drains in proportion to its length."""
TOKENS_PER_STEP = 8192
PREFILL_POOL_TOKENS_PER_STEP = 16_384
FIXED_S, FIXED_SPREAD, ENGINE_FIXED_SPREAD = 0.08, 0.7, 0.5
SLOW, SLOW_SPREAD, ENGINE_SLOW_SPREAD = 2.0, 0.5, 0.4
BURST, BURST_SPREAD = 0.1, 0.05
ROW_SPREAD = 0.3


@dataclass(frozen=True, slots=True)
class Waves:
    """Mean seconds to the first token of the requests that arrived together, and of those after them."""

    first_s: float
    rest_s: float


def step_timer(case: Case, splitter: Splitter, parameters: Mapping[Key, float]) -> StepSeconds:
    """Seconds of any step of the case's model, chip and engine."""
    totals = dict.fromkeys(COEFFICIENTS, 0.0)
    for key, _ in keys_of(case):
        totals[key[0]] += parameters.get(key, 0.0)
    values = {name: min(item.prior * float(np.exp(totals[name])), item.most) for name, item in COEFFICIENTS.items()}
    chip = case.chip
    peaks = Peaks(chip.bytes_per_s, case.flops_per_s, case.wide_flops_per_s, chip.link_bytes_per_s)
    speeds, scope = make_speeds(peaks, values), values["scope"]

    def step_s(counts: Counts) -> float:
        return float(scope * price(splitter.split(counts), speeds).duration_s)

    return step_s


def replay_waves(case: Case, parameters: Mapping[Key, float]) -> Waves:
    """The closed loop of a case, of one data-parallel group, through the scheduler."""
    load, layout = case.load, case.layout
    pool = layout.prefill or layout.decode
    asked = max(
        round((load.concurrency or 1.0) * layout.decode.dp * layout.decode.replicas / (pool.dp * pool.replicas)), 1
    )
    concurrency = min(asked, MAX_REPLAYED)
    rounds = 10 if concurrency <= 16 else 5 if concurrency <= 64 else 3 if concurrency <= 256 else 2
    elsewhere = None
    if layout.prefill is not None:
        elsewhere = step_timer(case, case.splitter, parameters)(decode_counts(case.shape, load))
    loop = ClosedLoop(
        concurrency=concurrency,
        num_requests=rounds * concurrency,
        input_tokens=int(load.input_tokens / 0.9),
        output_tokens=int(load.output_tokens / 0.9),
        max_num_batched_tokens=max(TOKENS_PER_STEP if elsewhere is None else PREFILL_POOL_TOKENS_PER_STEP, concurrency),
        max_num_seqs=concurrency,
        decode_elsewhere_s=elsewhere,
    )
    times = Replay(case.shape, loop, step_timer(case, case.prefill_splitter, parameters)).run()
    first = float(np.mean(times[:concurrency]))
    rest = float(np.mean(times[concurrency:])) if len(times) > concurrency else first
    return Waves(first * asked / concurrency, rest)


def _groups(case: Case) -> tuple[str, str]:
    kind = "disaggregated" if case.layout.prefill is not None else "aggregated"
    return kind, f"{kind}|{case.engine}"


def first_token_figures(
    cases: Sequence[Case], waves: Sequence[Waves], fitted: Mapping[str, float]
) -> npt.NDArray[np.float64]:
    """TTFT of each case in its row's unit. Groups that were not fitted fall back to the kind of system, then to all."""
    out = []
    for case, wave in zip(cases, waves, strict=True):
        fixed = fitted.get("fixed", 0.0) + sum(fitted.get(f"fixed|{group}", 0.0) for group in _groups(case))
        slow = fitted.get("slow", 0.0) + sum(fitted.get(f"slow|{group}", 0.0) for group in _groups(case))
        burst = min(BURST * float(np.exp(fitted.get("burst", 0.0))), 1.0)
        mean_s = burst * wave.first_s + (1 - burst) * wave.rest_s
        out.append(case.scale * (FIXED_S * float(np.exp(fixed)) + SLOW * float(np.exp(slow)) * mean_s))
    return np.array(out)


def fit_first_tokens(cases: Sequence[Case], waves: Sequence[Waves]) -> dict[str, float]:
    """Logarithms of factors, by name."""
    spreads: dict[str, float] = {"fixed": FIXED_SPREAD, "slow": SLOW_SPREAD, "burst": BURST_SPREAD}
    for case in cases:
        for group in _groups(case):
            spreads[f"fixed|{group}"] = ENGINE_FIXED_SPREAD
            spreads[f"slow|{group}"] = ENGINE_SLOW_SPREAD
    names = list(spreads)
    widths = np.array([spreads[name] for name in names])
    wanted = np.log(np.array([case.value for case in cases], float))

    def residuals(parameters: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        figures = first_token_figures(cases, waves, dict(zip(names, parameters, strict=True)))
        off = (np.log(figures) - wanted) / ROW_SPREAD
        robust = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1))
        return np.concatenate([robust, parameters / widths])

    found = least_squares(residuals, np.zeros(len(names)), max_nfev=40)
    return {name: float(value) for name, value in zip(names, found.x, strict=True)}
