"""The causes that a run may have been held up by, and the thresholds by which they are told."""

from __future__ import annotations

CAUSES: dict[str, str] = {
    "queue": "Queue: too few seats",
    "prefill_compute": "Prefill compute",
    "decode_bandwidth": "Decode bandwidth",
    "decode_compute": "Decode compute",
    "kv_capacity": "KV capacity",
    "fragmentation": "KV fragmentation",
    "cache_misses": "Cache misses",
    "preemption": "Preemption and retries",
    "host_overhead": "Host or scheduler overhead",
    "client": "Client",
    "network": "Network",
    "link": "Links between chips",
}

NAMED = 0.2
"""Least share of the requests' time for which a cause is called the bottleneck."""
TOLD = 0.02
"""Least share for which a cause is listed at all."""
FEWEST = 5
"""Requests with times of both ends below which nothing is argued."""
IDLE_STEPS = 0.1
"""Decode steps that neither memory nor arithmetic at the peaks would take this share of are overhead."""
MEMORY_INTENSITY = 10.0
"""FLOPs a byte below which a decode is memory's on every chip, where its peaks are not known."""
