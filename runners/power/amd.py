"""AMD GPUs through AMD SMI (the amdsmi package of ROCm, where it is installed): each board's draw in watts.

Which key holds it depends on the board: `current_socket_power` on MI300 and later, `average_socket_power` before; a
board that has not got one says "N/A" there. AMD SMI Python API reference, `amdsmi_get_power_info`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from runners.power.meter import NoMeter, Source

KEYS = ("current_socket_power", "socket_power", "average_socket_power")


class AmdSmiMeter:
    source: Source = "amdsmi"

    def __init__(self, smi: Any, devices: Sequence[Any]) -> None:
        self.covers = f"{len(devices)} GPU board{'s' * (len(devices) > 1)}"
        self._smi = smi
        self._devices = devices

    def read(self) -> float | None:
        try:
            watts = [_watts(self._smi.amdsmi_get_power_info(device)) for device in self._devices]
        except self._smi.AmdSmiException:
            return None
        return sum(value for value in watts if value is not None) if None not in watts else None


def open_amdsmi() -> AmdSmiMeter:
    """Raises NoMeter without the library, the driver, or a board."""
    try:
        smi = importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError) as error:  # it looks for its shared library while it is imported
        raise NoMeter("amdsmi is not installed") from error
    try:
        smi.amdsmi_init()
        devices = smi.amdsmi_get_processor_handles()
        if not devices:
            raise NoMeter("AMD SMI lists no GPU")
        meter = AmdSmiMeter(smi, devices)
        if meter.read() is None:
            raise NoMeter("AMD SMI tells no draw of these boards")
        return meter
    except smi.AmdSmiException as error:
        raise NoMeter(f"AMD SMI does not answer: {error}") from error


def _watts(told: Mapping[str, Any]) -> float | None:
    found = (told.get(key) for key in KEYS)
    return next((float(value) for value in found if isinstance(value, int | float) and value > 0), None)
