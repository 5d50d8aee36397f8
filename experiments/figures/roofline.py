"""A chip's roofline: what it can compute at most against how many FLOPs each byte of memory is used for.

One roof for each precision, min(peak, bandwidth x intensity) (Williams, Waterman, Patterson 2009, "Roofline"); a slope
of its own where the SRAM is faster than the main memory. Stand-ins for what is not disclosed are drawn as a band.
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from experiments.figures.style import HUES, as_json, faint, layout
from runners.chips import ChipRecord, band_of

SHOWN = ("fp32", "bf16", "fp16", "int8", "fp8", "fp4", "nvfp4", "mxfp4", "mx9", "mx6", "mxint8", "mxint4")
INTENSITIES = tuple(10 ** (exponent / 8) for exponent in range(-8, 41))
"""FLOP per byte, from 0.1 to 100,000."""


def roofline_figure(record: ChipRecord) -> dict[str, Any] | None:
    """TFLOP/s over FLOP/byte, both on logarithmic axes; None without a bandwidth or a rate."""
    bandwidth = record.memory.bandwidth_bytes_per_s
    rates = {name: rate for name in SHOWN if (rate := record.dense_tflops.get(name)) is not None}  # type: ignore[call-overload]
    if bandwidth is None or not rates:
        return None
    band = band_of(record)
    traces: list[go.Scatter] = []
    for number, (name, rate) in enumerate(_distinct(rates)):
        hue = HUES[number % len(HUES)]
        if band:
            traces += _band(name, rate, bandwidth, hue, band["low_x"], band["high_x"])
        traces.append(_roof(name, _points(rate, bandwidth), hue, "dot" if band else "solid"))
    sram = record.memory.sram_bandwidth_bytes_per_s
    if sram is not None and sram > bandwidth:
        traces.append(_roof("from SRAM", _points(max(rates.values()), sram), HUES[-1], "dot"))
    frame = layout(
        showlegend=True,
        xaxis={"title": {"text": "FLOP per byte of memory traffic"}, "type": "log", "dtick": 1},
        yaxis={"title": {"text": "TFLOP/s at most"}, "type": "log", "dtick": 1},
    )
    return as_json(go.Figure(traces, frame))


def _distinct(rates: dict[str, float]) -> list[tuple[str, float]]:
    """Formats of one rate share a roof."""
    names: dict[float, list[str]] = {}
    for name, rate in rates.items():
        names.setdefault(rate, []).append(name)
    return [(", ".join(shared), rate) for rate, shared in names.items()]


def _points(tflops: float, bytes_per_s: float) -> list[tuple[float, float]]:
    ridge = tflops * 1e12 / bytes_per_s
    intensities = sorted({*INTENSITIES, ridge})
    return [(x, min(tflops, x * bytes_per_s / 1e12)) for x in intensities]


def _roof(name: str, points: list[tuple[float, float]], hue: str, dash: str) -> go.Scatter:
    return go.Scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        name=name,
        mode="lines",
        line={"color": hue, "width": 1.6, "dash": dash},
        hovertemplate=f"{name}<br>%{{x:.3g}} FLOP/byte<br>%{{y:.3g}} TFLOP/s<extra></extra>",
    )


def _band(name: str, tflops: float, bytes_per_s: float, hue: str, low_x: float, high_x: float) -> list[go.Scatter]:
    low = _points(tflops * low_x, bytes_per_s * low_x)
    high = _points(tflops * high_x, bytes_per_s * high_x)
    outline = [*low, *reversed(high)]
    return [
        go.Scatter(
            x=[x for x, _ in outline],
            y=[y for _, y in outline],
            name=f"{name}, band",
            mode="lines",
            line={"width": 0, "color": hue},
            fill="toself",
            fillcolor=faint(hue),
            hoverinfo="skip",
            showlegend=False,
        )
    ]
