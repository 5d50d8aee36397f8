"""How long a first token takes in a closed loop: the replayed queue, and what an engine adds to it.

TTFT = fixed + burst x TTFT of the first wave + (1 - burst) x TTFT of the rest. The waves come from the real scheduler
(replay.py), in which a step that prefills takes `slow` times as long as in the large steps that throughput was fitted
on. `fixed` is what happens outside of steps (HTTP, tokenizer, moving a cache); `burst` is the share of a test's
requests that arrive at its start all at once.

Some rows are off by a factor of ten, since what they waited for is not in them. So the fit takes errors to be of
Cauchy's distribution: it follows what most rows agree on, and the others hardly pull.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.sparse import csr_matrix

from runners.modelled.cases import JITTERED, Case, decode_counts
from runners.modelled.coefficients import FIRST_TOKEN, Coefficient, Key, Peaks, keys_of, make_speeds, values_of
from runners.modelled.replay import ClosedLoop, Replay, StepSeconds
from runners.modelled.work import Counts, Splitter, price

MAX_REPLAYED, MAX_REPLAYED_TOKENS = 512, 16_000_000
"""Larger loops, of requests or of prompt tokens in flight, are replayed at this size: their first wave drains in
proportion to its length."""
TOKENS_PER_STEP = 8192
PREFILL_POOL_TOKENS_PER_STEP = 16_384
SLOWNESSES = (0.5, 0.9, 1.6, 2.9, 5.2)
"""Where a fit replays each loop; between them it interpolates."""
ROW_SPREAD = 0.3
Array = npt.NDArray[np.float64]


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
    """The closed loop of a case, of one replica of the pool that prefills, through the scheduler."""
    load, layout = case.load, case.layout
    pool = layout.prefill or layout.decode
    in_flight = (load.concurrency or 1.0) * layout.decode.dp * layout.decode.replicas
    asked = max(round(in_flight / pool.replicas), 1)
    input_tokens = int(load.input_tokens / JITTERED)
    concurrency = min(asked, MAX_REPLAYED, max(MAX_REPLAYED_TOKENS // max(input_tokens, 1), 1))
    elsewhere = None
    if layout.prefill is not None:
        elsewhere = step_timer(case, case.splitter, parameters)(decode_counts(case.shape, load))
    budget = TOKENS_PER_STEP if elsewhere is None else PREFILL_POOL_TOKENS_PER_STEP
    loop = ClosedLoop(
        concurrency=concurrency,
        num_requests=_rounds(concurrency) * concurrency,
        input_tokens=input_tokens,
        output_tokens=int(load.output_tokens / JITTERED),
        max_num_batched_tokens=max(budget * pool.dp, concurrency),
        max_num_seqs=concurrency,
        decode_elsewhere_s=elsewhere,
        slow_prefill=slow,
        groups=pool.dp,
    )
    times = Replay(case.shape, loop, step_timer(case, case.prefill_splitter, parameters)).run()
    first = float(np.mean(times[:concurrency]))
    rest = float(np.mean(times[concurrency:])) if len(times) > concurrency else first
    return Waves(first * asked / concurrency, rest)


def _rounds(concurrency: int) -> int:
    """How often each place of the loop is taken: fewer where each round tells more."""
    return 10 if concurrency <= 16 else 5 if concurrency <= 64 else 3 if concurrency <= 256 else 2


def slowness_of(case: Case, fitted: Mapping[Key, float]) -> float:
    """How much longer than in large steps the case's prefill takes."""
    return values_of(case, fitted, FIRST_TOKEN)["slow"]


def first_token_figure(case: Case, waves: Waves, fitted: Mapping[Key, float]) -> float:
    """TTFT of the case in its row's unit. A group that was not fitted falls back to the kind of system, then to all."""
    terms = values_of(case, fitted, FIRST_TOKEN)
    burst = terms["burst"]
    return case.scale * (terms["fixed"] + burst * waves.first_s + (1 - burst) * waves.rest_s)


def fit_first_tokens(cases: Sequence[Case], waves: Sequence[Sequence[Waves]]) -> dict[Key, float]:
    """Logarithms of factors. `waves[i][j]` are those of case i at SLOWNESSES[j]."""
    spreads: dict[Key, float] = {}
    for case in cases:
        spreads |= dict(keys_of(case, FIRST_TOKEN))
    place = {key: number for number, key in enumerate(spreads)}
    picks = {item.name: _picks(cases, item, place) for item in FIRST_TOKEN}
    widths = np.array(list(spreads.values()))
    wanted = np.log(np.array([case.value for case in cases], float))
    scale = np.array([case.scale for case in cases])
    first = np.log([[wave.first_s for wave in row] for row in waves])
    rest = np.log([[wave.rest_s for wave in row] for row in waves])

    def residuals(parameters: Array) -> Array:
        fixed_s, slow, burst = (
            np.minimum(item.prior * np.exp(picks[item.name] @ parameters), item.most) for item in FIRST_TOKEN
        )
        mean_s = burst * np.exp(_between(slow, first)) + (1 - burst) * np.exp(_between(slow, rest))
        off = (np.log(scale * (fixed_s + mean_s)) - wanted) / ROW_SPREAD
        return np.concatenate([np.sign(off) * np.sqrt(np.log1p(off**2)), parameters / widths])

    found = least_squares(residuals, np.zeros(len(place)), max_nfev=40)
    return {key: float(found.x[number]) for key, number in place.items()}


def _picks(cases: Sequence[Case], item: Coefficient, place: Mapping[Key, int]) -> csr_matrix:
    """Which parameters the term of each case is the product of, (cases, parameters)."""
    pairs = [(row, place[key]) for row, case in enumerate(cases) for key, _ in keys_of(case, (item,))]
    rows, places = zip(*pairs, strict=True)
    return csr_matrix((np.ones(len(pairs)), (rows, places)), shape=(len(cases), len(place)))


def _between(slow: Array, at_places: Array) -> Array:
    """Each row of `at_places`, logarithms at SLOWNESSES, interpolated at its `slow`."""
    places, wanted = np.log(SLOWNESSES), np.log(slow)
    left = np.clip(np.searchsorted(places, wanted) - 1, 0, len(places) - 2)
    share = np.clip((wanted - places[left]) / (places[left + 1] - places[left]), 0.0, 1.0)
    rows = np.arange(len(slow))
    return np.asarray(at_places[rows, left] * (1 - share) + at_places[rows, left + 1] * share)
