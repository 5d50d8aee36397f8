"""RAPL, as Linux shows it under /sys/class/powercap: the energy of each CPU package, and of its DRAM where counted.

Kernel documentation: power/powercap. `energy_uj` counts microjoules and wraps past `max_energy_range_uj`; since 2020
root alone may read it. A package's cores and integrated GPU are parts of it and not counted again; `psys` counts the
whole board on some machines and nothing on others, so it is left out. AMD's CPUs are listed under the same names.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from runners.power.counter import EnergyCounter
from runners.power.meter import NoMeter, Source

POWERCAP = Path("/sys/class/powercap")
COUNTED = ("package", "dram")


class RaplMeter:
    """Adds up its zones. One that does not answer makes the reading none."""

    source: Source = "rapl"

    def __init__(self, zones: list[Path]) -> None:
        self.covers = "CPU packages" + (" and their DRAM" if any(_name(zone) == "dram" for zone in zones) else "")
        self._counters = [EnergyCounter(partial(_joules, zone, "energy_uj"), _range(zone)) for zone in zones]

    def read(self) -> float | None:
        try:
            watts = [counter.watts() for counter in self._counters]
        except OSError:
            return None
        return sum(value for value in watts if value is not None) if None not in watts else None


def open_rapl(root: Path = POWERCAP) -> RaplMeter:
    """Raises NoMeter where there are no zones, or none that we may read."""
    found = [path for path in sorted(root.glob("intel-rapl:*")) if _name(path).startswith(COUNTED)]
    # the same package may be listed a second time through its memory-mapped interface, under another prefix
    zones = [path for path in found if (path / "energy_uj").exists()]
    if not zones:
        raise NoMeter(f"no CPU package is listed under {root}")
    try:
        for zone in zones:
            _joules(zone, "energy_uj")
    except PermissionError as error:
        raise NoMeter(f"{error.filename} may be read by root alone") from error
    except (OSError, ValueError) as error:
        raise NoMeter(f"RAPL does not answer: {error}") from error
    return RaplMeter(zones)


def _name(zone: Path) -> str:
    try:
        return (zone / "name").read_text().strip()
    except OSError:
        return ""


def _joules(zone: Path, file: str) -> float:
    return int((zone / file).read_text()) / 1e6


def _range(zone: Path) -> float | None:
    try:
        return _joules(zone, "max_energy_range_uj")
    except (OSError, ValueError):
        return None
