"""Which meter a machine has for the chips that a run is on, found by trying.

A GPU's board is what a run on it pays for; on a CPU it is the packages. RAPL counts whole sockets, with what others do
on them: that a node is shared is a reason of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runners.power.amd import open_amdsmi
from runners.power.meter import Meter, NoMeter
from runners.power.nvidia import open_nvml
from runners.power.rapl import open_rapl

ON_CPU: Mapping[str, Callable[[], Meter]] = {"rapl": open_rapl}
ON_GPU: Mapping[str, Callable[[], Meter]] = {"nvml": open_nvml, "amdsmi": open_amdsmi}


def open_meter(kinds: Mapping[str, Callable[[], Meter]]) -> tuple[Meter | None, dict[str, str]]:
    """The first of the kinds that there is, and why those before it are none."""
    missing: dict[str, str] = {}
    for name, open_one in kinds.items():
        try:
            return open_one(), missing
        except NoMeter as error:
            missing[name] = str(error)
    return None, missing
