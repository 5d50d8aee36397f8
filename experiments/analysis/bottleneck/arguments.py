"""The argument for each cause: a sentence with the figures in it, and those figures by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from experiments.analysis.bottleneck.causes import IDLE_STEPS
from experiments.analysis.bottleneck.evidence import Evidence
from runners.display import digits, shown

Argument = tuple[str, dict[str, float | None]]


def argue(kind: str, e: Evidence) -> tuple[str, dict[str, float]]:
    """The sentence of a cause, and the figures in it."""
    says, figures = _ARGUMENTS[kind](e)
    told = {name: float(value) for name, value in figures.items() if value is not None}
    return says, told


def _queue(e: Evidence) -> Argument:
    seats = e.steps.waiting_seats
    return (
        f"requests waited {_each(e.queue_s, e)} each, in {percent(seats)} of it because every seat was taken",
        {"queue_s": e.queue_s / e.requests, "waiting_seats": seats, "running": e.steps.running},
    )


def _prefill(e: Evidence) -> Argument:
    return (
        f"prompts took {_each(e.prefill_s, e)} each to compute and lengthened decoding by "
        f"{percent(e.steps.stretch)}; for {percent(e.steps.waiting_budget)} of the queue the step’s token budget was "
        "used up",
        {"prefill_s": e.prefill_s / e.requests, "stretch": e.steps.stretch, "waiting_budget": e.steps.waiting_budget},
    )


def _bandwidth(e: Evidence) -> Argument:
    part = e.phases.get("decode", {}).get("bandwidth")
    if part is not None:
        how = f"the cost model puts {percent(part)} of modelled decode time down to memory"
    elif e.steps.memory_bound is not None:
        how = f"memory moved at {percent(e.steps.memory_bound)} of its peak, arithmetic at less"
    else:
        how = f"peaks are not known; at {_number(e.steps.intensity)} FLOPs a byte any chip waits for memory"
    return (
        f"decode steps of {_step(e)} are bound by memory: {how}",
        {"memory_bound": e.steps.memory_bound, "modelled_share": part, "intensity": e.steps.intensity},
    )


def _compute(e: Evidence) -> Argument:
    part = e.phases.get("decode", {}).get("compute")
    if part is not None:
        how = f"the cost model puts {percent(part)} of modelled decode time down to it"
    elif e.steps.compute_bound is not None:
        how = f"it ran at {percent(e.steps.compute_bound)} of its peak, memory at less"
    else:
        how = f"peaks are not known; {_number(e.steps.intensity)} FLOPs a byte"
    return (
        f"decode steps of {_step(e)} are bound by arithmetic: {how}",
        {"compute_bound": e.steps.compute_bound, "modelled_share": part, "intensity": e.steps.intensity},
    )


def _capacity(e: Evidence) -> Argument:
    return (
        f"for {percent(e.steps.waiting_blocks)} of the queue a seat and tokens of the step were free, KV blocks not; "
        f"{percent(e.steps.kv_use)} of the blocks were held",
        {"waiting_blocks": e.steps.waiting_blocks, "kv_use": e.steps.kv_use, "queue_s": e.queue_s / e.requests},
    )


def _fragmentation(e: Evidence) -> Argument:
    return (
        f"requests waited for KV blocks while {percent(e.steps.fragmentation)} of the slots in held blocks were empty",
        {"fragmentation": e.steps.fragmentation, "waiting_blocks": e.steps.waiting_blocks},
    )


def _misses(e: Evidence) -> Argument:
    return (
        f"the workload lets the cache serve up to {percent(e.offered_tokens / max(e.prompt_tokens, 1))} of prompt "
        f"tokens, it served {percent(e.cached_tokens / max(e.prompt_tokens, 1))}; the rest was computed again",
        {
            "offered_share": e.offered_tokens / max(e.prompt_tokens, 1),
            "hit_rate": e.cached_tokens / max(e.prompt_tokens, 1),
        },
    )


def _preemption(e: Evidence) -> Argument:
    return (
        f"{e.preemptions} preemptions cost {shown(e.redone_s, 's')} of decoding, {e.failed} failed requests "
        f"{shown(e.failed_s, 's')}",
        {"preemptions": e.preemptions, "redone_s": e.redone_s, "failed": e.failed, "attempt": e.attempt},
    )


def _host(e: Evidence) -> Argument:
    idle_s, overhead = sum((e.idle_s or {}).values()), e.phases.get("decode", {}).get("overhead")
    parts = [f"the engine was in no step for {_each(idle_s, e)} of a request’s time with it"]
    if overhead is not None:
        parts.append(f"the cost model puts {percent(overhead)} of modelled decode time down to overhead")
    elif e.steps.memory_bound is not None and max(e.steps.memory_bound, e.steps.compute_bound or 0.0) < IDLE_STEPS:
        parts.append(
            f"decode steps used less than {percent(IDLE_STEPS)} of memory and arithmetic "
            f"({percent(e.steps.memory_bound)}, {percent(e.steps.compute_bound)})"
        )
    if e.foreign_cpu_share:
        parts.append(f"others used {percent(e.foreign_cpu_share)} of the node’s CPU")
    figures = {"idle_s": idle_s / e.requests, "first_sample_s": e.first_sample_s / e.requests}
    return "; ".join(parts), figures | {"overhead": overhead, "foreign_cpu_share": e.foreign_cpu_share}


def _client(e: Evidence) -> Argument:
    lag_s, cpu = e.client.get("p99_lag_s"), e.client.get("cpu_share")
    over = ", ".join(e.client.get("limited_by") or ()) or "none"
    return (
        f"requests were sent {_each(e.client_wait_s, e)} after they were due; the client’s own lag was "
        f"{shown(lag_s, 's')} at p99, it used {percent(cpu)} of a core; thresholds passed: {over}",
        {"client_wait_s": e.client_wait_s / max(e.requests, 1), "p99_lag_s": lag_s, "cpu_share": cpu},
    )


def _network(e: Evidence) -> Argument:
    return (
        f"a request took {_each(e.network_s, e)} to reach the runtime’s queue; the way back is taken for as long",
        {"network_s": e.network_s / e.requests, "first_sample_s": e.first_sample_s / e.requests},
    )


def _link(e: Evidence) -> Argument:
    prefill, decode = (e.phases.get(name, {}).get("link") for name in ("prefill", "decode"))
    return (
        f"links took {percent(prefill)} of modelled prefill and {percent(decode)} of modelled decode steps; requests "
        f"waited {_each(e.moved_s, e)} each for KV of another pool",
        {"prefill_link": prefill, "decode_link": decode, "moved_s": e.moved_s / e.requests},
    )


_ARGUMENTS: Mapping[str, Callable[[Evidence], Argument]] = {
    "queue": _queue,
    "prefill_compute": _prefill,
    "decode_bandwidth": _bandwidth,
    "decode_compute": _compute,
    "kv_capacity": _capacity,
    "fragmentation": _fragmentation,
    "cache_misses": _misses,
    "preemption": _preemption,
    "host_overhead": _host,
    "client": _client,
    "network": _network,
    "link": _link,
}


def percent(share: float | None) -> str:
    return "–" if share is None else f"{digits(100 * share)}\u00a0%"


def _number(value: float | None) -> str:
    return "–" if value is None else digits(value)


def _each(seconds: float, e: Evidence) -> str:
    return shown(seconds / max(e.requests, 1), "s")


def _step(e: Evidence) -> str:
    length_s = e.steps.decode_step_s if e.steps.decode_step_s is not None else e.steps.any_step_s
    return shown(length_s, "s")
