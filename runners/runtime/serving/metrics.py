"""What GET /metrics shows, in a registry of its own (so that two servers in one process would not mix).

Counted where tokens reach the server. The lab's own figures come from the client's clock, not from here.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from runners.runtime.engine import EngineStats
from runners.runtime.serving.messages import Ready
from runners.runtime.serving.steps import FIELDS

TTFT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 30.0, 60.0)
ITL_BUCKETS_S = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2, 0.4, 0.8, 2.0)
E2E_BUCKETS_S = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
_CACHED_TOKENS, _PREEMPTED = FIELDS.index("cached_tokens"), FIELDS.index("preempted")


class ServerMetrics:
    """Prometheus metrics with the prefix `lab:`, each labelled with the model's name."""

    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self._model = model
        self._running = self._gauge("lab:num_requests_running", "Sequences that hold blocks")
        self._waiting = self._gauge("lab:num_requests_waiting", "Sequences that wait for admission")
        self._kv_usage = self._gauge("lab:kv_cache_usage_ratio", "Share of KV blocks held by a sequence")
        self._kv_used = self._gauge("lab:kv_used_blocks", "KV blocks held by a sequence")
        self._kv_cached = self._gauge("lab:kv_cached_blocks", "KV blocks kept for their prefix, evictable")
        self._kv_free = self._gauge("lab:kv_free_blocks", "KV blocks that hold nothing")
        self._steps = self._counter("lab:steps", "Engine steps")
        self._prompt = self._counter("lab:prompt_tokens", "Prompt tokens of accepted requests")
        self._generated = self._counter("lab:generation_tokens", "Output tokens")
        self._cached = self._counter("lab:prefix_cache_hit_tokens", "Tokens not computed: in the prefix cache")
        self._preemptions = self._counter("lab:num_preemptions", "Sequences preempted")
        self._finished = Counter(
            "lab:requests_finished", "Requests by how they ended", ["model", "reason"], registry=self.registry
        )
        self._ttft = self._histogram("lab:time_to_first_token_seconds", "From receipt", TTFT_BUCKETS_S)
        self._itl = self._histogram("lab:inter_token_latency_seconds", "Between two tokens", ITL_BUCKETS_S)
        self._e2e = self._histogram("lab:e2e_request_latency_seconds", "Receipt to end", E2E_BUCKETS_S)

    def stats(self, stats: EngineStats) -> None:
        """What the engine holds now."""
        total = stats.kv_used_blocks + stats.kv_cached_blocks + stats.kv_free_blocks
        self._running.set(stats.running)
        self._waiting.set(stats.waiting)
        self._kv_usage.set(stats.kv_used_blocks / total if total else 0.0)
        self._kv_used.set(stats.kv_used_blocks)
        self._kv_cached.set(stats.kv_cached_blocks)
        self._kv_free.set(stats.kv_free_blocks)

    def step(self, values: tuple[float, ...]) -> None:
        """One step, its values in the order of `steps.FIELDS`."""
        self._steps.inc()
        self._cached.inc(values[_CACHED_TOKENS])
        self._preemptions.inc(values[_PREEMPTED])

    def accepted(self, prompt_tokens: int) -> None:
        self._prompt.inc(prompt_tokens)

    def token(self, received_s: float, last_token_s: float | None, now_s: float) -> None:
        """An output token came: the first of its request where `last_token_s` is null."""
        self._generated.inc()
        if last_token_s is None:
            self._ttft.observe(now_s - received_s)
        else:
            self._itl.observe(now_s - last_token_s)

    def finished(self, reason: str, duration_s: float) -> None:
        """A request ended: stop, length, abort or error."""
        self._finished.labels(self._model, reason).inc()
        self._e2e.observe(duration_s)

    def loaded(self, ready: Ready) -> None:
        pass

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, ["model"], registry=self.registry).labels(self._model)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, ["model"], registry=self.registry).labels(self._model)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, ["model"], buckets=buckets, registry=self.registry).labels(self._model)
