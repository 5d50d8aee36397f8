"""Engine profiles: what an engine spends and reaches, apart from the chip that it runs on.

vLLM, SGLang, TensorRT-LLM (as released, and as tuned for MLPerf), llama.cpp and NeuronX have theirs from the
calibration, as groups of its coefficients. Two others are described here, since too little is published of them to
fit: the lab's own engine, and engines that run a whole model as one persistent kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

FITTED = ("vLLM", "SGLang", "TensorRT-LLM", "TensorRT-LLM (MLPerf)", "llama.cpp", "NeuronX")
DESCRIBED: Mapping[str, Mapping[str, float]] = {
    # One launch per step, from Python on one thread; attention and matrices by torch (runners/runtime).
    "built-in": {"step_s": 1e-3, "layer_s": 60e-6, "sequence_s": 20e-6},
    # No launches and no host between layers; an all-reduce overlaps the next layer ("delayed tensor parallelism",
    # blog.kog.ai, 2026), so that of its latency only the synchronisation of the chips stays.
    "Kog": {"step_s": 20e-6, "layer_s": 2e-6, "expert_layer_s": 2e-6, "sequence_s": 1e-6, "token_s": 0.0,
            "latency_s": 1.5e-6},
}  # fmt: skip
"""Coefficients that take the place of the calibration's, by profile."""

ENGINE_PROFILES = {
    "auto": "vLLM",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tensorrt-llm": "TensorRT-LLM",
    "tensorrt-llm-mlperf": "TensorRT-LLM (MLPerf)",
    "llama.cpp": "llama.cpp",
    "neuronx": "NeuronX",
    "built-in": "built-in",
    "kog": "Kog",
}
"""What an experiment's `engine.profile` calls them."""


class ProfileError(ValueError):
    """No such engine profile; trying again would change nothing."""

    retry = False


def overrides_of(profile: str) -> Mapping[str, float]:
    """Raises ProfileError."""
    if profile in DESCRIBED:
        return DESCRIBED[profile]
    if profile in FITTED:
        return {}
    raise ProfileError(f"engine profile: {profile!r} is not known; allowed: {', '.join((*FITTED, *DESCRIBED))}")
