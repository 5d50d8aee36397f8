"""What GET /metrics shows, in a registry of its own (so that two servers in one process would not mix).

Names and meanings are those that vLLM's users know, under `lab:`; the README beside this module lists them. Counted
where tokens reach the server. The lab's own figures come from the client's clock, not from here.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from runners.runtime.engine import EngineStats, RequestTiming
from runners.runtime.serving.messages import EngineConfig, Ready
from runners.runtime.serving.steps import FIELDS

TTFT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 30.0, 60.0)
ITL_BUCKETS_S = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2, 0.4, 0.8, 2.0)
REQUEST_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
TOKEN_BUCKETS = tuple(2.0**power for power in range(18))
N_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_PREFILL, _DECODE, _PREEMPTED = (FIELDS.index(name) for name in ("prefill_tokens", "decode_tokens", "preempted"))

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second line per series, which nothing here reads


class ServerMetrics:
    """Prometheus metrics with the prefix `lab:`, each labelled with the model's name."""

    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self._model = model
        self._add_engine_state()
        self._add_counters()
        self._add_latencies()
        self._add_sizes()

    def _add_engine_state(self) -> None:
        self._running = self._gauge("num_requests_running", "Sequences that hold blocks")
        self._waiting = self._gauge("num_requests_waiting", "Sequences that wait for admission")
        self._kv_usage = self._gauge("kv_cache_usage_perc", "Share of KV blocks held by a sequence, 0 to 1")
        self._kv_used = self._gauge("kv_used_blocks", "KV blocks held by a sequence")
        self._kv_cached = self._gauge("kv_cached_blocks", "KV blocks kept for their prefix, evictable")
        self._kv_free = self._gauge("kv_free_blocks", "KV blocks that hold nothing")
        labels = ["model", "block_size", "num_blocks", "enable_prefix_caching", "max_model_len"]
        self._cache_config = Gauge(
            "lab:cache_config_info", "How the KV cache is laid out", labels, registry=self.registry
        )

    def _add_counters(self) -> None:
        self._steps = self._counter("steps", "Engine steps")
        self._prompt = self._counter("prompt_tokens", "Prompt tokens of accepted sequences")
        self._generated = self._counter("generation_tokens", "Output tokens")
        self._queried = self._counter("prefix_cache_queries", "Prompt tokens looked for in the prefix cache")
        self._hit = self._counter("prefix_cache_hits", "Prompt tokens found in the prefix cache")
        self._preemptions = self._counter("num_preemptions", "Sequences preempted")
        labels = ["model", "finished_reason"]
        self._finished = Counter(
            "lab:request_success",
            "Sequences by how they ended: stop, length, abort, error",
            labels,
            registry=self.registry,
        )

    def _add_latencies(self) -> None:
        histogram = self._histogram
        self._ttft = histogram("time_to_first_token_seconds", "Receipt to first token", TTFT_BUCKETS_S)
        self._itl = histogram("inter_token_latency_seconds", "Between two tokens", ITL_BUCKETS_S)
        self._tpot = histogram(
            "request_time_per_output_token_seconds", "Mean gap of a sequence's tokens", ITL_BUCKETS_S
        )
        self._e2e = histogram("e2e_request_latency_seconds", "Receipt to end", REQUEST_BUCKETS_S)
        self._queue = histogram("request_queue_time_seconds", "In the engine's queue", REQUEST_BUCKETS_S)
        self._prefill = histogram("request_prefill_time_seconds", "First step to first token", REQUEST_BUCKETS_S)
        self._decode = histogram("request_decode_time_seconds", "First token to last", REQUEST_BUCKETS_S)
        self._inference = histogram("request_inference_time_seconds", "First step to last token", REQUEST_BUCKETS_S)

    def _add_sizes(self) -> None:
        histogram = self._histogram
        self._prompt_len = histogram("request_prompt_tokens", "Prompt tokens of a sequence", TOKEN_BUCKETS)
        self._output_len = histogram("request_generation_tokens", "Output tokens of a sequence", TOKEN_BUCKETS)
        self._asked_n = histogram("request_params_n", "Answers asked for per prompt", N_BUCKETS)
        self._asked_tokens = histogram("request_params_max_tokens", "Most output tokens of a sequence", TOKEN_BUCKETS)
        self._step_tokens = histogram("iteration_tokens_total", "Tokens computed in a step", TOKEN_BUCKETS)

    def loaded(self, ready: Ready, config: EngineConfig) -> None:
        """The engine is there: how its cache is laid out."""
        num_blocks = ready.stats.kv_used_blocks + ready.stats.kv_cached_blocks + ready.stats.kv_free_blocks
        caching = str(config.prefix_cache).lower()
        self._cache_config.labels(self._model, config.block_size, num_blocks, caching, ready.context_len).set(1)

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
        self._step_tokens.observe(values[_PREFILL] + values[_DECODE])
        self._preemptions.inc(values[_PREEMPTED])

    def asked(self, n: int, max_tokens: list[int]) -> None:
        """A request came for `n` answers a prompt, with the most tokens of each of its sequences."""
        self._asked_n.observe(n)
        for most in max_tokens:
            self._asked_tokens.observe(most)

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
        """A sequence ended: stop, length, abort or error."""
        self._finished.labels(self._model, reason).inc()
        self._e2e.observe(duration_s)

    def timed(self, prompt_tokens: int, output_tokens: int, timing: RequestTiming) -> None:
        """How long a sequence that the engine has taken up spent in each phase."""
        self._prompt_len.observe(prompt_tokens)
        self._output_len.observe(output_tokens)
        self._queried.inc(prompt_tokens)
        self._hit.inc(timing.cached_tokens)
        if timing.scheduled_first_s is None or timing.prefill_done_s is None:
            return
        self._queue.observe(timing.scheduled_first_s - timing.queued_s)
        self._prefill.observe(timing.prefill_done_s - timing.scheduled_first_s)
        self._decode.observe(timing.finished_s - timing.prefill_done_s)
        self._inference.observe(timing.finished_s - timing.scheduled_first_s)
        if output_tokens > 1:
            self._tpot.observe((timing.finished_s - timing.prefill_done_s) / (output_tokens - 1))

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"lab:{name}", text, ["model"], registry=self.registry).labels(self._model)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"lab:{name}", text, ["model"], registry=self.registry).labels(self._model)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        named = f"lab:{name}"
        return Histogram(named, text, ["model"], buckets=buckets, registry=self.registry).labels(self._model)
