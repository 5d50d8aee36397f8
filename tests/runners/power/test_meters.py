"""Meters over what each kind of machine offers: a tree as Linux lists RAPL, and libraries that answer from a script."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runners.power import ON_CPU, ON_GPU, open_meter
from runners.power.amd import open_amdsmi
from runners.power.counter import EnergyCounter
from runners.power.meter import NoMeter
from runners.power.nvidia import open_nvml
from runners.power.rapl import open_rapl


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("runners.power.counter.monotonic", found)
    return found


def zone(root: Path, number: str, name: str, uj: int, most: int = 1_000_000_000) -> Path:
    made = root / f"intel-rapl:{number}"
    made.mkdir(parents=True)
    for file, text in (("name", name), ("energy_uj", str(uj)), ("max_energy_range_uj", str(most))):
        (made / file).write_text(text + "\n")
    return made


def spend(made: Path, uj: int) -> None:
    file = made / "energy_uj"
    file.write_text(str((int(file.read_text()) + uj) % int((made / "max_energy_range_uj").read_text())))


def test_a_counter_gives_the_mean_since_the_last_call_and_survives_its_wrap() -> None:
    told, clock = iter([990.0, 5.0, 5.0, 15.0]), Clock()
    counter = EnergyCounter(lambda: next(told), 1000.0, clock)
    assert counter.watts() is None
    clock.s = 1.0
    assert counter.watts() == pytest.approx(15)
    assert counter.watts() is None  # no time has passed
    clock.s = 3.0
    assert counter.watts() == pytest.approx(5)


def test_a_counter_that_was_reset_tells_nothing_for_once() -> None:
    told, clock = iter([990.0, 5.0, 25.0]), Clock()
    counter = EnergyCounter(lambda: next(told), None, clock)
    counter.watts()
    clock.s = 1.0
    assert counter.watts() is None
    clock.s = 2.0
    assert counter.watts() == pytest.approx(20)


def test_rapl_adds_packages_and_their_dram_and_leaves_out_their_parts(tmp_path: Path, clock: Clock) -> None:
    zones = [zone(tmp_path, "0", "package-0", 999_000_000), zone(tmp_path, "1", "package-1", 0)]
    zones += [zone(tmp_path, "0:0", "core", 0), zone(tmp_path, "0:1", "dram", 0), zone(tmp_path, "2", "psys", 0)]
    meter = open_rapl(tmp_path)
    assert meter.read() is None
    for made, uj in zip(zones, (30_000_000, 20_000_000, 7_000_000, 4_000_000, 90_000_000), strict=True):
        spend(made, uj)
    clock.s = 2.0
    assert meter.read() == pytest.approx((30 + 20 + 4) / 2)
    assert meter.source == "rapl" and meter.covers == "CPU packages and their DRAM"


def test_rapl_that_stops_answering_gives_none_and_not_a_part(tmp_path: Path, clock: Clock) -> None:
    first, second = zone(tmp_path, "0", "package-0", 0), zone(tmp_path, "1", "package-1", 0)
    meter = open_rapl(tmp_path)
    meter.read()
    spend(first, 5_000_000)
    (second / "energy_uj").unlink()
    clock.s = 1.0
    assert meter.read() is None


def test_a_machine_without_rapl_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoMeter, match="no CPU package"):
        open_rapl(tmp_path)
    broken = zone(tmp_path, "0", "package-0", 0)
    (broken / "energy_uj").write_text("none")
    with pytest.raises(NoMeter, match="does not answer"):
        open_rapl(tmp_path)


class Nvml(ModuleType):
    """What of NVML the meter calls, over boards with a counter in millijoules, or without one."""

    class NVMLError(Exception):
        pass

    def __init__(self, boards: list[dict[str, Any]], driver: bool = True) -> None:
        super().__init__("pynvml")
        self.boards, self.driver = boards, driver

    def nvmlInit(self) -> None:
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, place: int) -> dict[str, Any]:
        return self.boards[place]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:
        return next(board for board in self.boards if board["uuid"] == uuid)

    def nvmlDeviceGetTotalEnergyConsumption(self, board: dict[str, Any]) -> int:
        if "mj" not in board:
            raise self.NVMLError("Not Supported")
        return int(board["mj"])

    def nvmlDeviceGetPowerUsage(self, board: dict[str, Any]) -> int:
        if board.get("lost"):
            raise self.NVMLError("GPU is lost")
        return int(board["mw"])


def test_nvml_counts_energy_where_boards_do_and_asks_for_power_where_not(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    boards = [{"uuid": "GPU-a", "mj": 1_000}, {"uuid": "GPU-b", "mw": 70_000}]
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(boards))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    meter = open_nvml()
    assert meter.read() is None  # the first board's counter has nothing to compare with yet
    boards[0]["mj"] += 600_000
    clock.s = 2.0
    assert meter.read() == pytest.approx(300 + 70)
    boards[1]["lost"] = True
    clock.s = 3.0
    assert meter.read() is None


@pytest.mark.parametrize(("named", "watts"), [("1", 20.0), ("GPU-a", 10.0), ("0,1", 30.0), ("0,-1,1", 10.0)])
def test_nvml_meters_the_boards_that_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, named: str, watts: float
) -> None:
    boards = [{"uuid": "GPU-a", "mw": 10_000}, {"uuid": "GPU-b", "mw": 20_000}]
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(boards))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert open_nvml().read() == pytest.approx(watts)


class AmdSmi(ModuleType):
    class AmdSmiException(Exception):
        pass

    def __init__(self, boards: list[dict[str, Any]]) -> None:
        super().__init__("amdsmi")
        self.boards = boards

    def amdsmi_init(self) -> None:
        return None

    def amdsmi_get_processor_handles(self) -> list[dict[str, Any]]:
        return self.boards

    def amdsmi_get_power_info(self, board: dict[str, Any]) -> dict[str, Any]:
        if "gone" in board:
            raise self.AmdSmiException("device lost")
        return board


def test_amd_smi_reads_the_key_that_a_board_has(monkeypatch: pytest.MonkeyPatch) -> None:
    boards = [
        {"current_socket_power": 700, "average_socket_power": "N/A"},
        {"current_socket_power": "N/A", "average_socket_power": 250},
    ]
    monkeypatch.setitem(sys.modules, "amdsmi", AmdSmi(boards))
    meter = open_amdsmi()
    assert meter.read() == 950 and meter.covers == "2 GPU boards"
    boards[0]["gone"] = True
    assert meter.read() is None


def test_without_a_library_a_driver_or_a_board_there_is_no_meter_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml([], driver=False))
    monkeypatch.setitem(sys.modules, "amdsmi", AmdSmi([]))
    meter, missing = open_meter(ON_GPU)
    assert meter is None
    assert "Driver Not Loaded" in missing["nvml"] and "no GPU" in missing["amdsmi"]
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    _, missing = open_meter(ON_GPU)
    assert all("not installed" in why for why in missing.values())
    assert set(ON_CPU) == {"rapl"}
