"""Each figure of each record of the catalog, written in the unit that people speak in: refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from runners.chips import ChipRecord, load_catalog
from runners.chips.catalog import RecordError, read_record

CATALOG = load_catalog()
RATES = ("bf16", "fp16", "fp8", "int8", "tf32")
SPOKEN = {
    "memory.capacity_bytes": ("GB", 1e9),
    "memory.bandwidth_bytes_per_s": ("TB/s", 1e12),
    "interconnect.bytes_per_s_per_chip": ("GB/s", 1e9),
    "interconnect.latency_s": ("microseconds", 1e-6),
    "tdp_w": ("kW", 1e3),
    "system_w": ("kW", 1e3),
}


def rewritten(record: ChipRecord, path: str, factor: float) -> dict[str, Any]:
    data = record.model_dump(mode="json")
    *tables, last = path.split(".")
    here = data
    for table in tables:
        here = here[table]
    here[last] = type(here[last])(here[last] / factor)
    return data


@pytest.mark.parametrize("path", SPOKEN)
def test_a_figure_in_the_unit_that_people_speak_in_is_refused_by_its_name(path: str) -> None:
    unit, factor = SPOKEN[path]
    stated = [record for record in CATALOG if record.figure(path)]
    assert stated
    for record in stated:
        if path in ("tdp_w", "system_w") and not any(record.figure(f"dense_tflops.{name}") for name in RATES):
            continue  # no rate says that its watts are kilowatts
        with pytest.raises(RecordError) as raised:
            read_record(rewritten(record, path, factor))
        assert [field for field, _ in raised.value.faults] == [path], (record.chip_id, unit)
        assert "allowed: " in str(raised.value)


def test_rates_in_petaflops_are_refused_even_where_they_could_be_a_small_chips_teraflops() -> None:
    for record in CATALOG:
        rates = [name for name in RATES if record.figure(f"dense_tflops.{name}")]
        if not rates or record.memory.bandwidth_bytes_per_s is None:
            continue
        data = record.model_dump(mode="json")
        data["dense_tflops"] = {name: rate and rate / 1e3 for name, rate in data["dense_tflops"].items()}
        with pytest.raises(RecordError) as raised:
            read_record(data)
        assert all(field.startswith("dense_tflops") for field, _ in raised.value.faults), record.chip_id
        assert "TFLOP/s" in str(raised.value)
