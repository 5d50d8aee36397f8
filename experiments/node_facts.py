"""What an agent has found out about its node, as lines for a person: facts and measured ceilings with their units.

Agents of other versions may send less or more: what has another form than expected is left out here, and stays in the
API. Nothing is computed from it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runners.display import digits

GIB = 1024**3


@dataclass(frozen=True)
class Fact:
    label: str
    value: str


@dataclass(frozen=True)
class Ceiling:
    """`best` and `median` over the repeats, in `unit`."""

    label: str
    median: str
    best: str
    unit: str
    repeats: int | None


@dataclass(frozen=True)
class Ceilings:
    rows: tuple[Ceiling, ...] = ()
    measured_at: dt.datetime | None = None
    methods: tuple[str, ...] = ()


def facts_of(facts: Mapping[str, Any]) -> list[Fact]:
    cpu, memory, system = (_mapping(facts, key) for key in ("cpu", "memory", "os"))
    torch, packages = _mapping(facts, "torch"), _mapping(facts, "packages")
    found = [
        ("Chip", facts.get("chip")),
        ("Cores", _cores(cpu)),
        ("L3 cache", _size(cpu.get("l3_bytes"))),
        ("Instruction sets", _listed(cpu.get("instruction_sets"))),
        ("Accelerators", _accelerators(facts.get("accelerators"))),
        ("Memory", _size(memory.get("usable_bytes"))),
        ("System", " ".join(str(system[key]) for key in ("name", "release") if system.get(key))),
        ("Python", facts.get("python")),
        ("torch", torch.get("version")),
        ("Packages", ", ".join(f"{name} {version}" for name, version in packages.items() if name != "torch")),
    ]
    return [Fact(label, str(value)) for label, value in found if value]


def ceilings_of(ceilings: Mapping[str, Any]) -> Ceilings:
    bandwidth, matmul = _mapping(ceilings, "memory_bandwidth"), _mapping(ceilings, "matmul")
    rows = [
        *_rows(_mapping(bandwidth, "by_threads"), "Memory, {} threads", 1e9, "GB/s"),
        *_rows(_mapping(matmul, "by_precision"), "Matrix products, {}", 1e9, "GFLOP/s"),
    ]
    at = ceilings.get("measured_at")
    known = isinstance(at, int | float) and 0 < at < 2**33
    measured_at = dt.datetime.fromtimestamp(at, dt.UTC) if at is not None and known else None
    methods = tuple(str(part["method"]) for part in (bandwidth, matmul) if part.get("method"))
    return Ceilings(tuple(rows), measured_at, methods)


def _rows(found: Mapping[str, Any], label: str, scale: float, unit: str) -> list[Ceiling]:
    rows = []
    for key, one in found.items():
        if isinstance(one, Mapping) and _is_number(one.get("median")) and _is_number(one.get("best")):
            median, best = (digits(one[name] / scale) for name in ("median", "best"))
            words = label.format(key).replace(", 1 threads", ", 1 thread")
            rows.append(Ceiling(words, median, best, unit, one.get("repeats")))
    return rows


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _size(value: Any) -> str:
    if not _is_number(value):
        return ""
    return f"{digits(value / GIB)} GiB" if value >= GIB else f"{digits(value / 2**20)} MiB"


def _cores(cpu: Mapping[str, Any]) -> str:
    parts = [f"{cpu['physical_cores']} physical" if cpu.get("physical_cores") else ""]
    parts += [f"{cpu['logical_cores']} logical" if cpu.get("logical_cores") else ""]
    parts += [f"a quota of {cpu['quota_cores']}" if cpu.get("quota_cores") else ""]
    parts += ["virtual machine" if cpu.get("virtual") else ""]
    return ", ".join(part for part in parts if part)


def _listed(value: Any) -> str:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else ""


def _accelerators(value: Any) -> str:
    found = value if isinstance(value, list) else []
    return ", ".join(str(one.get("name", "unnamed")) for one in found if isinstance(one, Mapping))
