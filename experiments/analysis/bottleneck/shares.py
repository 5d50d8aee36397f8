"""What the time of a run's requests is put down to: request-seconds by cause.

The shares are of the time from when requests were due to when they had ended, so that they can be held against each
other; what no cause accounts for is left.

What a span's time is put down to:
- before the sending: the client. Where the client was its own limit by its self-check, also whatever passed while the
  engine did nothing, as a client that comes late looks like that.
- until the runtime queued it, and as much again of the first sample (the way back): the network; on a virtual clock,
  which has no network, the engine's reading of requests, which is host overhead.
- the queue: what the waiting requests lacked in each step. Seats are the queue itself, but for the share of the time in
  which those who sat there were held up by prompts or by arithmetic, which more seats would not help. Blocks are KV
  capacity, and fragmentation for the share of held slots that held nothing.
- prefill, and the stretch of decodes by prompts in the same steps: prefill compute; a cache miss for the share of
  computed prompt tokens that the workload let the cache serve.
- decode: what preempted requests took beyond the pace of the steps, links, and the rest by what the steps were bound
  by: the cost model's own account where the run is modelled, memory traffic and arithmetic at the peaks where measured.
- whatever passed while the single engine was in no step although requests were with it: host overhead.
"""

from __future__ import annotations

from experiments.analysis.bottleneck.causes import CAUSES, FEWEST, IDLE_STEPS, MEMORY_INTENSITY
from experiments.analysis.bottleneck.evidence import Evidence


class Shares:
    """Request-seconds by cause, as shares of all."""

    def __init__(self, e: Evidence) -> None:
        self._e = e
        self._found = dict.fromkeys(CAUSES, 0.0)

    def scores(self) -> dict[str, float]:
        e = self._e
        if e.client.get("was_limit") and (e.requests < FEWEST or not e.steps.steps):
            return self._found | {"client": 1.0}
        self._put_waiting()
        self._put_queue()
        self._put_prefill(e.prefill_s - self._idle("prefill"))
        self._put_decode()
        self._put_failures()
        self._blame_client()
        total_s = e.total_s + e.failed_s
        return {kind: seconds / total_s for kind, seconds in self._found.items()}

    def _idle(self, span: str) -> float:
        return (self._e.idle_s or {}).get(span, 0.0)

    def _put_waiting(self) -> None:
        e, found = self._e, self._found
        found["client"] += e.client_wait_s
        back_s = min(e.network_s, e.first_sample_s)
        way = "host_overhead" if e.modelled else "network"
        found[way] += e.network_s + back_s
        found["host_overhead"] += e.first_sample_s - back_s + sum((e.idle_s or {}).values())

    def _put_queue(self) -> None:
        e, found = self._e, self._found
        queue_s = e.queue_s - self._idle("queue")
        blocks_s = queue_s * e.steps.waiting_blocks
        fragmented = e.steps.fragmentation or 0.0
        found["fragmentation"] += blocks_s * fragmented
        found["kv_capacity"] += blocks_s * (1 - fragmented)
        found["preemption"] += queue_s * e.steps.waiting_preempted
        self._put_prefill(queue_s * e.steps.waiting_budget)
        seats_s = queue_s * e.steps.waiting_seats
        by_prompts, by_arithmetic = self._seats_held_by()
        self._put_prefill(seats_s * by_prompts)
        found["decode_compute"] += seats_s * by_arithmetic
        found["queue"] += seats_s * (1 - by_prompts - by_arithmetic)

    def _seats_held_by(self) -> tuple[float, float]:
        """Of the time that requests had seats, the shares that prompts and arithmetic of decoding took."""
        e = self._e
        decoding_s = max(e.decode_s - e.first_sample_s, 0.0)
        seated_s = e.prefill_s + decoding_s
        if not seated_s:
            return 0.0, 0.0
        prompts = (e.prefill_s + decoding_s * e.steps.stretch) / seated_s
        bounds = self._decode_bounds()
        arithmetic = (1 - prompts) * bounds["decode_compute"]
        return prompts, arithmetic

    def _put_prefill(self, seconds: float) -> None:
        e, found = self._e, self._found
        parts = e.phases.get("prefill", {})
        link_s, overhead_s = seconds * parts.get("link", 0.0), seconds * parts.get("overhead", 0.0)
        computed = e.prompt_tokens - e.cached_tokens
        missed = min(max(e.offered_tokens - e.cached_tokens, 0) / computed, 1.0) if computed > 0 else 0.0
        rest_s = seconds - link_s - overhead_s
        found["link"] += link_s
        found["host_overhead"] += overhead_s
        found["cache_misses"] += rest_s * missed
        found["prefill_compute"] += rest_s * (1 - missed)

    def _put_decode(self) -> None:
        e, found = self._e, self._found
        decode_s = max(e.decode_s - e.first_sample_s - self._idle("decode"), 0.0)
        redone_s = min(e.redone_s, decode_s)
        moved_s = min(e.moved_s, decode_s - redone_s)
        found["preemption"] += redone_s
        found["link"] += moved_s
        decode_s -= redone_s + moved_s
        self._put_prefill(decode_s * e.steps.stretch)
        for kind, share in self._decode_bounds().items():
            found[kind] += decode_s * (1 - e.steps.stretch) * share

    def _decode_bounds(self) -> dict[str, float]:
        """Shares of what decode steps without prompts spent their time on; they add up to 1."""
        told, steps = self._e.phases.get("decode"), self._e.steps
        kinds = dict.fromkeys(("decode_bandwidth", "decode_compute", "link", "host_overhead"), 0.0)
        if told is not None:
            names = {"bandwidth": "decode_bandwidth", "compute": "decode_compute", "overhead": "host_overhead"}
            return kinds | {names.get(part, part): share for part, share in told.items()}
        memory, arithmetic = steps.memory_bound, steps.compute_bound
        if memory is not None and arithmetic is not None:
            if max(memory, arithmetic) < IDLE_STEPS:
                return kinds | {"host_overhead": 1.0}
            return kinds | {"decode_bandwidth" if memory >= arithmetic else "decode_compute": 1.0}
        by_memory = steps.intensity is None or steps.intensity < MEMORY_INTENSITY
        return kinds | {"decode_bandwidth" if by_memory else "decode_compute": 1.0}

    def _put_failures(self) -> None:
        self._found["preemption"] += self._e.failed_s

    def _blame_client(self) -> None:
        if self._e.client.get("was_limit"):
            for kind in ("network", "host_overhead"):
                self._found["client"] += self._found[kind]
                self._found[kind] = 0.0
