"""What a node's chips draw while a run is measured: meters of several kinds, one sampler, one way to energy.

`open_meter` finds what this machine has: NVIDIA's NVML or AMD SMI for GPUs, RAPL for a CPU. Without any there is no
figure of power at all, never a guess.
"""

from __future__ import annotations

from runners.power.energy import Energy, PowerSample, energy_over
from runners.power.finding import ON_CPU, ON_GPU, open_meter
from runners.power.meter import Meter
from runners.power.sampler import PowerSampler

__all__ = ["ON_CPU", "ON_GPU", "Energy", "Meter", "PowerSample", "PowerSampler", "energy_over", "open_meter"]
