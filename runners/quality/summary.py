"""From the windows' means to the figures of a text, with 95 % intervals over windows. Pure.

Windows are equally long, and neighbouring tokens of one are not independent: so a window is the unit, and Student's t
over window means bounds their mean. Perplexity and its ratio are bounded on the log scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from runners.quality_figures import Figure, TextQuality


@dataclass(frozen=True, slots=True)
class WindowScore:
    """Means over one window's scored tokens, in nats; `same_top` is a share; `scored_bytes` their text's length."""

    nll: float
    reference_nll: float
    kl: float
    same_top: float
    scored_tokens: int
    scored_bytes: int


def summarize_text(windows: Sequence[WindowScore]) -> TextQuality:
    """The figures of at least one window."""
    tokens, text_bytes = sum(w.scored_tokens for w in windows), sum(w.scored_bytes for w in windows)
    agreement = mean_figure([w.same_top for w in windows])
    return TextQuality(
        perplexity=_exponential(mean_figure([w.nll for w in windows])),
        bits_per_byte=_bits_per_byte(windows, text_bytes),
        perplexity_ratio=_exponential(mean_figure([w.nll - w.reference_nll for w in windows])),
        kl_divergence=_within(mean_figure([w.kl for w in windows]), 0.0, math.inf),
        top1_agreement=_within(agreement, 0.0, 1.0),
        scored_tokens=tokens,
        scored_bytes=text_bytes,
    )


def mean_figure(values: Sequence[float]) -> Figure:
    """The mean with Student's t interval; no interval for a single value."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return Figure(value=mean, n=n)
    half = float(student_t.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n))
    return Figure(value=mean, low=mean - half, high=mean + half, n=n)


def _bits_per_byte(windows: Sequence[WindowScore], text_bytes: int) -> Figure:
    """Σ bits / Σ bytes; its interval is that of a ratio of two sums (linearised, over windows)."""
    bits = np.array([w.nll * w.scored_tokens / math.log(2) for w in windows])
    lengths = np.array([w.scored_bytes for w in windows], dtype=np.float64)
    n, ratio = len(windows), float(bits.sum() / text_bytes)
    if n < 2:
        return Figure(value=ratio, n=n)
    spread = float(np.std(bits - ratio * lengths, ddof=1)) / float(lengths.mean())
    half = float(student_t.ppf(0.975, n - 1)) * spread / math.sqrt(n)
    return Figure(value=ratio, low=ratio - half, high=ratio + half, n=n)


def _exponential(figure: Figure) -> Figure:
    ends = [None if end is None else math.exp(min(end, 700.0)) for end in (figure.value, figure.low, figure.high)]
    assert ends[0] is not None
    return Figure(value=ends[0], low=ends[1], high=ends[2], n=figure.n)


def _within(figure: Figure, least: float, most: float) -> Figure:
    low, high = (None if end is None else min(max(end, least), most) for end in (figure.low, figure.high))
    return Figure(value=figure.value, low=low, high=high, n=figure.n)
