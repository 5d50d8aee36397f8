"""Limits that a cgroup (v1 or v2) sets on this process, and how often it was throttled. Null where there is none."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
# v1 says "no limit" with the largest page-aligned number.
NO_LIMIT_BYTES = 1 << 62


def cpu_quota_cores(root: Path = ROOT, membership: str | None = None) -> float | None:
    """CPU time that the tightest of this process's cgroups allows, in cores."""
    quotas = []
    for folder in _folders("cpu", root, membership):
        quota, period = (
            _read(folder / "cpu.max").split() or ("max", "0")
            if (folder / "cpu.max").exists()
            else (
                _read(folder / "cpu.cfs_quota_us") or "-1",
                _read(folder / "cpu.cfs_period_us") or "0",
            )
        )
        if quota.lstrip("-").isdigit() and int(quota) > 0 and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit_bytes(root: Path = ROOT, membership: str | None = None) -> int | None:
    """The tightest memory limit of this process's cgroups."""
    limits = (_memory_limit_of(folder) for folder in _folders("memory", root, membership))
    return min((limit for limit in limits if limit is not None), default=None)


def memory_headroom_bytes(root: Path = ROOT, membership: str | None = None) -> int | None:
    """What this process's cgroups still let it take: the limit less what is in use, but for file cache, which gives
    way. The least of those with a limit."""
    rooms = []
    for folder in _folders("memory", root, membership):
        limit = _memory_limit_of(folder)
        used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
        if limit is not None and used.isdigit():
            stat = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
            prefix = "total_" if "total_inactive_file" in stat else ""
            cache = sum(int(stat.get(f"{prefix}{each}_file", 0)) for each in ("inactive", "active"))
            rooms.append(max(limit - max(int(used) - cache, 0), 0))
    return min(rooms, default=None)


def _memory_limit_of(folder: Path) -> int | None:
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    return int(text) if text.isdigit() and int(text) < NO_LIMIT_BYTES else None


def throttling(root: Path = ROOT, membership: str | None = None) -> dict[str, float] | None:
    """Scheduler periods of this process's cgroup under a quota, those in which it was held back, and for how long,
    since the cgroup began."""
    for folder in _folders("cpu", root, membership):
        stat = dict(line.split() for line in _read(folder / "cpu.stat").splitlines())
        if "nr_throttled" in stat:
            seconds = (
                int(stat["throttled_usec"]) / 1e6 if "throttled_usec" in stat else int(stat["throttled_time"]) / 1e9
            )
            return {
                "periods": float(stat["nr_periods"]),
                "throttled_periods": float(stat["nr_throttled"]),
                "throttled_s": seconds,
            }
    return None


def _folders(controller: str, root: Path, membership: str | None) -> list[Path]:
    """This process's cgroup folders for a controller, its own first, then those above it."""
    text = _read(Path("/proc/self/cgroup")) if membership is None else membership
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        base = root if controllers == "" else root / controller
        if controllers != "" and controller not in controllers.split(","):
            continue
        if not (base.is_dir() and (controllers or (base / "cgroup.controllers").exists())):
            continue
        own = base / path.lstrip("/")
        return [folder for folder in (own, *own.parents) if folder.is_relative_to(base)]
    return []


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # not there, or not ours to read
        return ""
