"""Labels of figures: Plotly knows some HTML, links too, and its templates' fields; people's words are neither."""

from __future__ import annotations

import json
import re

from experiments.analysis.distributions import pool
from experiments.figures.distributions import TrialDistribution, box_figure, curve_figure
from experiments.figures.heatmap import Plane, heat_figure
from experiments.figures.style import plain
from experiments.figures.trials import tradeoff_figure
from runners.distributions import GRID

EVIL = '<a href="https://evil.example">click</a><b>%{x}</b>&lt;i&gt;'
METRIC = {"median": 1.0, "low": None, "high": None, "n": 1, "unit": "s"}


def test_a_label_is_shown_as_it_was_written() -> None:
    assert plain("weights int8 · max_num_seqs 8") == "weights int8 · max_num_seqs 8"
    assert plain("<b>%{x}&") == "&lt;b&gt;&#37;{x}&amp;"


def test_no_figure_takes_markup_or_template_fields_from_settings_and_names() -> None:
    trial = {"id": 1, "settings": {EVIL: EVIL}, "modelled": False, "runs": [], "metrics": {"x": METRIC, "y": METRIC}}
    other = {**trial, "id": 2, "settings": {EVIL: "b"}, "metrics": {}}
    pooled = pool([{"e2el": {"n": 1, "quantiles": [1.0] * len(GRID)}}], "e2el")
    drawn = [TrialDistribution(EVIL, 0, False, pooled)] if pooled else []
    figures = [
        tradeoff_figure([trial], "x", "y"),
        heat_figure([trial, other], Plane(EVIL, "second", [EVIL, "b"], ["c"], {}), "x"),
        curve_figure(drawn, "e2el", "s"),
        box_figure(drawn, "e2el", "s"),
    ]
    for figure in figures:
        text = json.dumps(figure)
        assert "evil.example" in text
        assert not re.search(r"<(a|b|i)\b", text)
        assert "%{x}</b>" not in text and "&lt;b&gt;&#37;{x}" in text
