"""The next experiment that a bottleneck suggests: matrix paths with the values to compare, the present one first.

What is suggested may not help; it is what would show whether the cause was named right. Nothing is suggested where the
document has no setting that bears on the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runners.spec import ClosedArrival, OpenArrival, RunSpec, Setting

Change = dict[str, list[Setting]]


def suggest(kind: str, spec: RunSpec, *, modelled: bool) -> Change:
    """Empty where nothing is."""
    return _ADVICE[kind](spec, modelled)


def _more_seats(spec: RunSpec, _: bool) -> Change:
    engine = spec.engine
    most = min(16_384, engine.max_num_batched_tokens)
    return _axis("engine.max_num_seqs", [engine.max_num_seqs, *(min(engine.max_num_seqs * x, most) for x in (2, 4))])


def _fewer_seats(spec: RunSpec, _: bool) -> Change:
    seats = spec.engine.max_num_seqs
    return _axis("engine.max_num_seqs", [seats, max(seats // 2, 1), max(seats // 4, 1)])


def _step_budget(spec: RunSpec, _: bool) -> Change:
    """A larger budget computes prompts in fewer steps, a smaller one lets decodes in between."""
    tokens, least = spec.engine.max_num_batched_tokens, max(16, spec.engine.max_num_seqs)
    if not spec.engine.scheduler.chunked_prefill:
        least = max(least, spec.workload.longest_prompt)
    return _axis("engine.max_num_batched_tokens", [tokens, max(tokens // 4, least), min(tokens * 4, 1_048_576)])


def _lighter_weights(spec: RunSpec, _: bool) -> Change:
    return _axis("engine.weights", [spec.engine.weights, "int8"])


def _more_chips(spec: RunSpec, modelled: bool) -> Change:
    if not modelled or spec.placement.disaggregate.kind != "none":
        return _lighter_weights(spec, modelled)
    size = spec.placement.tensor_parallel
    return _axis("placement.tensor_parallel", [size, 2 if size == "auto" else size * 2])


def _lighter_cache(spec: RunSpec, modelled: bool) -> Change:
    if modelled and spec.engine.kv_cache == "bf16":
        return {"engine.kv_cache": ["bf16", "fp8"]}
    return _lighter_weights(spec, modelled) or _fewer_seats(spec, modelled)


def _smaller_blocks(spec: RunSpec, _: bool) -> Change:
    smaller = [size for size in (32, 16, 8) if size < spec.engine.block_size]
    return _axis("engine.block_size", [spec.engine.block_size, *smaller])


def _cache_more(spec: RunSpec, modelled: bool) -> Change:
    if not spec.engine.prefix_cache:
        return {"engine.prefix_cache": [False, True]}
    if spec.placement.replicas > 1 and spec.placement.router.policy != "kv_aware":
        return _axis("placement.router.policy", [spec.placement.router.policy, "kv_aware"])
    return _fewer_seats(spec, modelled)


def _more_load(spec: RunSpec, _: bool) -> Change:
    """Larger batches share what a step costs at all."""
    return _load(spec, 2)


def _less_load(spec: RunSpec, _: bool) -> Change:
    return _load(spec, 0.5)


def _load(spec: RunSpec, times: float) -> Change:
    arrival = spec.workload.arrival
    if isinstance(arrival, ClosedArrival):
        users = min(max(int(arrival.max_concurrency * times), 1), 65_536)
        return _axis("workload.arrival.max_concurrency", [arrival.max_concurrency, users])
    if isinstance(arrival, OpenArrival):
        rate = min(arrival.request_rate * times, 10_000.0)
        return _axis("workload.arrival.request_rate", [arrival.request_rate, rate])
    return {}


def _less_over_links(spec: RunSpec, _: bool) -> Change:
    placement = spec.placement
    if placement.disaggregate.kind == "prefill_decode":
        rate = placement.disaggregate.link.bytes_per_s
        if rate is not None:
            return _axis("placement.disaggregate.link.bytes_per_s", [rate, min(4 * rate, 1e16)])
        return {"placement.disaggregate.stream": [placement.disaggregate.stream, _other_stream(spec)]}
    if isinstance(placement.tensor_parallel, int) and placement.tensor_parallel > 1:
        return {"placement.tensor_parallel": [placement.tensor_parallel, placement.tensor_parallel // 2]}
    if placement.link.bytes_per_s is not None:
        return _axis(
            "placement.link.bytes_per_s", [placement.link.bytes_per_s, min(4 * placement.link.bytes_per_s, 1e16)]
        )
    return {}


def _other_stream(spec: RunSpec) -> Setting:
    return "whole" if spec.placement.disaggregate.stream == "layer" else "layer"


def _axis(path: str, values: list[Setting]) -> Change:
    """The values that differ, in order; nothing where all are the same."""
    different = list(dict.fromkeys(values))
    return {path: different} if len(different) > 1 else {}


_ADVICE: Mapping[str, Callable[[RunSpec, bool], Change]] = {
    "queue": _more_seats,
    "prefill_compute": _step_budget,
    "decode_bandwidth": _lighter_weights,
    "decode_compute": _more_chips,
    "kv_capacity": _lighter_cache,
    "fragmentation": _smaller_blocks,
    "cache_misses": _cache_more,
    "preemption": _fewer_seats,
    "host_overhead": _more_load,
    "client": _less_load,
    "network": _more_load,
    "link": _less_over_links,
}
