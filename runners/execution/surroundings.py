"""What else of this machine a run's speed may hang on, beside what runners.agent.detect finds of it: the kernel, NUMA,
clocks, drivers, the threads that processes start with, and those variables of the environment that engines obey.

Read from the system alone, once, before a run starts. What can't be had is null. Of the environment only the names in
ENVIRONMENT are ever read: anything else may be a secret.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENVIRONMENT = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MALLOC_ARENA_MAX",
    "LD_PRELOAD",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "HIP_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
)
MAX_VALUE = 500
CPUS = Path("/sys/devices/system/cpu")
NODES = Path("/sys/devices/system/node")
DRIVERS = {"nvidia": Path("/sys/module/nvidia/version"), "amdgpu": Path("/sys/module/amdgpu/version")}
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def surroundings(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Facts as JSON; frequencies in kHz as the kernel gives them."""
    return {
        "kernel": f"{platform.system()} {platform.release()} {platform.version()}",
        "cpus": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "numa_nodes": numa_nodes(NODES),
        "clock": clock(CPUS),
        "huge_pages": _chosen(_read(HUGE_PAGES)),
        "drivers": {name: version for name, path in DRIVERS.items() if (version := _read(path))},
        "environment": {name: environ[name][:MAX_VALUE] for name in ENVIRONMENT if name in environ},
    }


def numa_nodes(root: Path) -> dict[str, str] | None:
    """The CPUs of each node, as the kernel lists them (`0-15,32-47`)."""
    found = {one.name: cpus for one in sorted(root.glob("node[0-9]*")) if (cpus := _read(one / "cpulist"))}
    return found or None


def clock(root: Path) -> dict[str, Any] | None:
    """Governor and bounds of the first CPU, and whether any other has another governor; None where the machine does not
    tell, as most virtual ones."""
    governors = {_read(one) for one in root.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    first = root / "cpu0" / "cpufreq"
    if not governors:
        return None
    return {
        "governors": sorted(governor for governor in governors if governor),
        "min_khz": _number(_read(first / "scaling_min_freq")),
        "max_khz": _number(_read(first / "scaling_max_freq")),
        "turbo": {"0": True, "1": False}.get(_read(root / "intel_pstate" / "no_turbo") or ""),
    }


def _chosen(text: str | None) -> str | None:
    """The bracketed one of several choices."""
    found = re.search(r"\[(\w+)\]", text or "")
    return found[1] if found else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
