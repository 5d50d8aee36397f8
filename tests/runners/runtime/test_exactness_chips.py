"""Greedy output is exact with the kernels of other chips too: those of a lesser instruction set, chosen in a process.

The instruction sets are x86-64's; elsewhere the names say nothing and the chip's own kernels are tried again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_model import TinyModel, write_tiny_model

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("exact_schedule.py")

CHIPS = {
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    "AVX-512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "AVX-512 VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"},
    "AVX-512 bf16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "no vectors in torch": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = TinyModel(num_layers=2, hidden_size=192, num_heads=6, num_kv_heads=2, ffn_size=1088)
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", model)


def run_schedule(model: Path, environment: dict[str, str], *flags: str) -> list[dict[str, object]]:
    """The facts and counts of each precision. Fails with what the process wrote where a token is wrong."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(model), *flags],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    for each in facts:
        print(each["report"])
    return facts


@pytest.mark.parametrize("chip", CHIPS)
def test_output_is_exact_with_the_kernels_of(chip: str, tiny: Path) -> None:
    int8, bf16 = run_schedule(tiny, CHIPS[chip], "2")
    assert (int8["weights"], bf16["weights"]) == ("int8", "bf16")
    assert int8["compared"] == bf16["compared"] == 30
    assert int8["close_calls"] == 0


def test_output_is_exact_on_a_chip_without_bf16_products(tiny: Path) -> None:
    int8, _ = run_schedule(tiny, {}, "1", "no-bf16")
    assert int8["close_calls"] == 0
