"""The chip catalog: every figure sourced, every mistake named by file and field."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runners.chips import CATALOG_DIR, CatalogError, ChipRecord, load_catalog, load_record

H100 = (CATALOG_DIR / "h100-sxm.toml").read_text(encoding="utf-8")


def write(directory: Path, text: str, name: str = "h100-sxm.toml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_catalog_holds_the_h100_with_its_dense_rates() -> None:
    record = {chip.chip_id: chip for chip in load_catalog()}["h100-sxm"]
    assert record.peak_flops("bf16") == pytest.approx(989e12)
    assert record.peak_flops("nvfp4") is None
    assert record.memory.bandwidth_bytes_per_s == pytest.approx(3.35e12)


@pytest.mark.parametrize("record", load_catalog(), ids=lambda record: record.chip_id)
def test_each_figure_of_the_catalog_has_a_source_and_a_confidence(record: ChipRecord) -> None:
    assert record.figures() or record.speculative
    for path in record.figures():
        source = record.source_of(path)
        assert source is not None and source.source and source.confidence


def test_a_figure_of_its_own_source_does_not_take_that_of_its_table() -> None:
    record = load_record(CATALOG_DIR / "h100-sxm.toml")
    fp64, bf16 = record.source_of("dense_tflops.fp64"), record.source_of("dense_tflops.bf16")
    assert fp64 is not None and fp64.confidence == "recall"
    assert bf16 is not None and bf16.confidence == "high"


def test_a_record_survives_json() -> None:
    record = load_record(CATALOG_DIR / "h100-sxm.toml")
    assert ChipRecord.model_validate(record.model_dump(mode="json")) == record


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("tdp_w = 700", "tdp_watts = 700", "tdp_watts"),
        ("bf16 = 989", "bf16 = -1", "dense_tflops.bf16"),
        ("bf16 = 989", "bf17 = 989", "dense_tflops.bf17"),
        ('type = "HBM3"', "", "memory.type"),
        ('confidence = "medium"', 'confidence = "sure"', "sources."),
        ('field = "*"', 'field = "interconnect.domain_chips"', "sources"),
        ('field = "usd_per_hour"', 'field = "usd_purchase"', "sources"),
        ('field = "dense_tflops.fp64"', 'field = "efficiency.watts"', "sources"),
        ("kind =", "speculative = true\nkind =", "speculative"),
        ("kind =", 'figures_of = "system"\nkind =', "system"),
        ('chip_id = "h100-sxm"', 'chip_id = "h200"', "chip_id"),
        ('name = "H100 SXM5 80GB"', "", "name"),
    ],
)
def test_a_mistake_is_named_by_file_and_field(tmp_path: Path, old: str, new: str, field: str) -> None:
    assert old in H100
    path = write(tmp_path, H100.replace(old, new, 1))
    with pytest.raises(CatalogError) as raised:
        load_record(path)
    assert "h100-sxm.toml" in str(raised.value)
    assert raised.value.field.startswith(field)


@pytest.mark.parametrize(
    ("old", "new", "field", "allowed"),
    [
        ("capacity_bytes = 80_000_000_000", "capacity_bytes = 80", "memory.capacity_bytes", "1e+08 to 2e+14 bytes"),
        ("bandwidth_bytes_per_s = 3.35e12", "bandwidth_bytes_per_s = 3.35", "memory.bandwidth_bytes_per_s", "bytes/s"),
        ("sram_bytes = 50_000_000", "sram_bytes = 50", "memory.sram_bytes", "1e+06 to 1e+12 bytes"),
        ("bytes_per_s_per_chip = 4.5e11", "bytes_per_s_per_chip = 450", "interconnect.bytes_per_s_per_chip", "bytes/s"),
        ("latency_s = 10e-6", "latency_s = 10", "interconnect.latency_s", "1e-08 to 0.001 s"),
        ("bf16 = 989", "bf16 = 989e12", "dense_tflops.bf16", "TFLOP/s"),
        ("bf16 = 989", "bf16 = 0.989", "dense_tflops.bf16", "TFLOP/s for a gpu; allowed: 1 to"),
        ("tdp_w = 700", "tdp_w = 0.7", "tdp_w", "1 to 30000 W"),
        ("tdp_w = 700", 'tdp_w = "700"', "tdp_w", "valid number"),
        ("usd_per_hour = 1.3", "usd_per_hour = 27500", "usd_per_hour", "USD/h"),
        ("memory_fraction = 0.95", "memory_fraction = 95", "efficiency.memory_fraction", "of the peak"),
    ],
)
def test_a_figure_in_another_unit_is_refused_by_what_is_allowed(
    tmp_path: Path, old: str, new: str, field: str, allowed: str
) -> None:
    assert old in H100
    with pytest.raises(CatalogError) as raised:
        load_record(write(tmp_path, H100.replace(old, new, 1)))
    assert raised.value.field == field
    assert allowed in str(raised.value) and "h100-sxm.toml" in str(raised.value)


def test_a_system_of_chips_that_the_catalog_does_not_have_is_refused(tmp_path: Path) -> None:
    shutil.copy(CATALOG_DIR / "groq3-lpx.toml", tmp_path)
    with pytest.raises(CatalogError, match=r"groq3-lpx\.toml: system\.parts: no record of 'groq3-lpu'"):
        load_catalog(tmp_path)


def test_text_that_is_not_toml_is_refused_by_file_name(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"broken\.toml: is not TOML"):
        load_record(write(tmp_path, "= 3", "broken.toml"))


def test_an_empty_directory_is_an_error_and_not_an_empty_catalog(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="holds no"):
        load_catalog(tmp_path)
