"""Power of a chip as a step loads it: idle, plus what memory traffic and arithmetic add.

P = tdp x (idle + busy + memory x MBU + compute x MFU) x family, at most tdp: dynamic power goes with activity (Hong
and Kim 2010, "An integrated GPU power and performance model"), whose measures here are the shares of peak bandwidth and
peak arithmetic that the step reaches. The shares are fitted on published joules per token (energy.py). Nothing here is
measured on a wall plug: host, network and cooling are not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

PRIORS = {"idle": 0.25, "memory": 0.35, "compute": 0.6, "busy": 0.1}


@dataclass(frozen=True, slots=True)
class PowerShares:
    """Shares of a chip's stated power."""

    idle: float
    memory: float
    compute: float
    busy: float

    def busy_w(self, tdp_w: float, mbu: float, mfu: float) -> float:
        """Watts while a step runs that reaches those shares of peak bandwidth and arithmetic."""
        share = self.idle + self.busy + self.memory * min(mbu, 1.0) + self.compute * min(mfu, 1.0)
        return tdp_w * min(share, 1.0)

    def idle_w(self, tdp_w: float) -> float:
        """Watts while none runs."""
        return tdp_w * min(self.idle, 1.0)


def shares_of(fitted: Mapping[str, float], family: str) -> PowerShares:
    """Of a chip family. `fitted` are logarithms of factors; what is not in it keeps its prior."""
    of_family = math.exp(fitted.get(f"family={family}", 0.0))
    return PowerShares(**{name: prior * math.exp(fitted.get(name, 0.0)) * of_family for name, prior in PRIORS.items()})


UNFITTED = shares_of({}, "")
