"""How a published precision and a published parallelism are read."""

from __future__ import annotations

import pytest

from runners.modelled.formats import FORMATS, FormatError, parse_format
from runners.modelled.parallel import Layout, Parallel, ParallelError, read_parallelism


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("BF16?", "bf16"),
        ("FP4 (NVFP4/MXFP4)", "nvfp4"),
        ("MXFP4w", "mxfp4"),
        ("W int8 / compute BF16", "w8a16"),
        ("Ollama default Q4_K_M", "q4_k_m"),
        ("INT4", "w4a16"),
        ("F16", "bf16"),
    ],
)
def test_a_published_precision_names_a_format(text: str, name: str) -> None:
    assert parse_format(text).name == name


def test_an_unknown_precision_is_refused_with_what_is_known() -> None:
    with pytest.raises(FormatError, match=r"precision: 'ternary' is not known; allowed: .*nvfp4"):
        parse_format("ternary")


def test_a_format_without_units_computes_in_the_next_wider_one() -> None:
    rates = {"bf16": 989e12, "fp8": 1979e12}
    assert FORMATS["nvfp4"].rate_of(rates.get) == ("fp8", 1979e12)
    assert not FORMATS["nvfp4"].is_native(rates.get) and FORMATS["fp8"].is_native(rates.get)
    with pytest.raises(FormatError, match="bf16"):
        FORMATS["bf16"].rate_of({"fp8": 1.0}.get)


@pytest.mark.parametrize(
    ("text", "chips", "layout"),
    [
        ("TP4", 4, Layout(Parallel(tp=4))),
        ("TP1,PP4", 4, Layout(Parallel(pp=4))),
        ("TP1 EP4 DP1", 4, Layout(Parallel(tp=4, ep=4))),
        ("DEP4", 4, Layout(Parallel(dp=4, ep=4))),
        ("agg TP4 PP1 attnDP4 moeTP1 EP16", 16, Layout(Parallel(tp=4, dp=4, ep=16))),
        ("disagg P2x4gpu D3x8gpu", 32, Layout(Parallel(tp=8, replicas=3), Parallel(tp=4, replicas=2))),
        (None, 8, Layout(Parallel(tp=2, replicas=4))),
    ],
)
def test_a_published_parallelism_is_a_layout(text: str | None, chips: int, layout: Layout) -> None:
    found = read_parallelism(text, chips, least_chips=2 if text is None else 1)
    assert found == layout
    assert found.chips == chips


def test_an_impossible_topology_is_refused_by_name() -> None:
    with pytest.raises(ParallelError, match="ep: 3"):
        Parallel(tp=4, ep=3)
    with pytest.raises(ParallelError, match="tp: 0"):
        Parallel(tp=0)
