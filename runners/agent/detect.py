"""What this machine is: its CPU, memory, instruction sets, caches, accelerators and versions.

`detect()` is light and reads the system alone; `python -m runners.agent.detect` adds what torch sees (CUDA, ROCm, MPS,
XPU) and prints JSON, so that the agent itself never loads torch. A figure that can't be had is null. Measures nothing.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from runners.cgroup import cpu_quota_cores, memory_limit_bytes

INSTRUCTION_SETS = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2", "svei8mm", "svebf16", "sme", "rvv",
)  # fmt: skip
PACKAGES = ("torch", "numpy", "celery", "redis", "aiohttp", "tokenizers", "gguf", "inference-lab")


def detect() -> dict[str, Any]:
    """Facts of the machine without its accelerators; bytes and hertz as their names say."""
    cpu = _cpuinfo()
    memory = psutil.virtual_memory()
    limit = memory_limit_bytes()
    cores = usable_cores()
    return {
        "chip": cpu["model"],
        "cpu": {
            "model": cpu["model"],
            "vendor": cpu["vendor"],
            "architecture": platform.machine(),
            "cores": cores,
            "logical_cores": psutil.cpu_count(logical=True),
            "physical_cores": psutil.cpu_count(logical=False),
            "quota_cores": cpu_quota_cores(),
            "instruction_sets": [name for name in INSTRUCTION_SETS if name in cpu["flags"]],
            "l3_bytes": _l3_bytes(),
            "virtual": "hypervisor" in cpu["flags"],
        },
        "memory": {
            "total_bytes": memory.total,
            "limit_bytes": limit,
            "usable_bytes": min(memory.total, limit) if limit else memory.total,
        },
        "os": {"system": platform.system(), "release": platform.release(), "name": _os_name()},
        "python": platform.python_version(),
        "packages": _versions(),
        "accelerators": [],
    }


def detect_with_accelerators() -> dict[str, Any]:
    """The same, with what torch can compute on. The first accelerator, if any, is the node's chip."""
    facts = detect()
    accelerators, backends = _accelerators()
    facts["accelerators"] = accelerators
    facts["torch"] = backends
    if accelerators:
        facts["chip"] = accelerators[0]["name"]
    return facts


def usable_cores() -> int:
    """Cores that this process may use: its affinity, cut by the cgroup's quota; at least 1."""
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (psutil.cpu_count() or 1)
    quota = cpu_quota_cores()
    return max(1, min(affine, int(quota)) if quota else affine)


def _cpuinfo() -> dict[str, Any]:
    if sys.platform == "darwin":
        return {"model": _sysctl("machdep.cpu.brand_string"), "vendor": "Apple", "flags": _darwin_flags()}
    text = _read("/proc/cpuinfo")
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    return {
        "model": found.get("model name") or found.get("Model") or platform.processor() or platform.machine(),
        "vendor": found.get("vendor_id") or found.get("CPU implementer"),
        "flags": set((found.get("flags") or found.get("Features") or "").split()),
    }


def _darwin_flags() -> set[str]:
    features = _sysctl("hw.optional") or ""
    names = {"FEAT_DotProd": "asimddp", "FEAT_I8MM": "i8mm", "FEAT_BF16": "bf16", "FEAT_SME": "sme", "neon": "asimd"}
    return {ours for theirs, ours in names.items() if re.search(rf"{theirs}: 1\b", features)}


def _sysctl(name: str) -> str | None:
    done = subprocess.run(
        ["sysctl", "-n" if "." in name and name != "hw.optional" else "-a", name], capture_output=True
    )
    return done.stdout.decode().strip() or None


def _l3_bytes() -> int | None:
    """All level-3 cache that the CPUs of this machine see, each shared one counted once."""
    caches: dict[str, int] = {}
    for index in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*"):
        if _read(index / "level").strip() != "3":
            continue
        size = re.fullmatch(r"(\d+)K", _read(index / "size").strip())
        if size:
            caches[_read(index / "shared_cpu_list").strip()] = int(size[1]) * 1024
    return sum(caches.values()) or None


def _os_name() -> str:
    found = re.search(r'^PRETTY_NAME="?(.*?)"?$', _read("/etc/os-release"), re.MULTILINE)
    return found[1] if found else platform.platform()


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _accelerators() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What torch lists, and how it was built. Imported here because it takes seconds and a modelled node needs none."""
    import torch  # noqa: PLC0415

    found: list[dict[str, Any]] = []
    if torch.cuda.is_available():
        backend = "rocm" if torch.version.hip else "cuda"
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            found.append(
                {
                    "backend": backend,
                    "index": index,
                    "name": device.name,
                    "memory_bytes": device.total_memory,
                    "units": device.multi_processor_count,
                    "capability": getattr(device, "gcnArchName", None)
                    if torch.version.hip
                    else f"{device.major}.{device.minor}",
                }
            )
    if torch.backends.mps.is_available():
        found.append({"backend": "mps", "index": 0, "name": _sysctl("machdep.cpu.brand_string") or "Apple GPU"})
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        for index in range(torch.xpu.device_count()):
            name = torch.xpu.get_device_name(index)
            memory = torch.xpu.get_device_properties(index).total_memory
            found.append({"backend": "xpu", "index": index, "name": name, "memory_bytes": memory})
    backends = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "mkldnn": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    return found, backends


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:  # this kernel doesn't tell
        return ""


if __name__ == "__main__":
    print(json.dumps(detect_with_accelerators()))
