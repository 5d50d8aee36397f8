"""NVIDIA GPUs through NVML (the nvidia-ml-py package, where it is installed): boards that this process may use.

`nvmlDeviceGetTotalEnergyConsumption` counts millijoules since the driver was loaded, from Volta on; older boards tell
their draw of the moment in milliwatts. NVIDIA's NVML API reference.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from runners.power.counter import EnergyCounter
from runners.power.meter import NoMeter, Source


class NvmlMeter:
    source: Source = "nvml"

    def __init__(self, nvml: Any, devices: Sequence[Any]) -> None:
        self.covers = f"{len(devices)} GPU board{'s' * (len(devices) > 1)}"
        self._error = nvml.NVMLError
        self._reads = [_reader(nvml, device) for device in devices]

    def read(self) -> float | None:
        try:
            watts = [read() for read in self._reads]
        except self._error:
            return None
        return sum(value for value in watts if value is not None) if None not in watts else None


def open_nvml() -> NvmlMeter:
    """Raises NoMeter without the library, the driver, or a board."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise NoMeter("nvidia-ml-py is not installed") from error
    try:
        nvml.nvmlInit()
        devices = _visible(nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
        if not devices:
            raise NoMeter("NVML lists no GPU that this process may use")
        return NvmlMeter(nvml, devices)
    except nvml.NVMLError as error:
        raise NoMeter(f"NVML does not answer: {error}") from error


def _visible(nvml: Any, named: str | None) -> list[Any]:
    """All boards, or those that CUDA_VISIBLE_DEVICES names by their number or UUID, up to the first that is neither."""
    if named is None:
        return [nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount())]
    devices = []
    for word in filter(None, (part.strip() for part in named.split(","))):
        if word.isdecimal() and int(word) < nvml.nvmlDeviceGetCount():
            devices.append(nvml.nvmlDeviceGetHandleByIndex(int(word)))
        elif word.startswith("GPU-"):
            devices.append(nvml.nvmlDeviceGetHandleByUUID(word))
        else:
            break
    return devices


def _reader(nvml: Any, device: Any) -> Callable[[], float | None]:
    try:
        nvml.nvmlDeviceGetTotalEnergyConsumption(device)
    except nvml.NVMLError:
        return lambda: float(nvml.nvmlDeviceGetPowerUsage(device)) / 1000
    return EnergyCounter(lambda: float(nvml.nvmlDeviceGetTotalEnergyConsumption(device)) / 1000).watts
