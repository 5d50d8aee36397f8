"""The heat map: which plane of the matrix it shows, and what each cell says of its trial."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.analysis.speculative import Band
from experiments.figures.heatmap import Plane, heat_figure
from experiments.pages.heatmap import heat_map

MATRIX: dict[str, list[Any]] = {"a": [1, 2], "b": ["x", "y", "z"], "c": [True, False], "d": ["one"]}


def trial(id: int, median: float | None = 0.5, *, runs: tuple[bool, ...] = (True,), **settings: Any) -> dict[str, Any]:
    metric = {"median": median, "low": None, "high": None, "n": sum(runs), "unit": "s", "method": ""}
    return {
        "id": id, "settings": settings, "modelled": False, "runs": [{"valid": valid} for valid in runs],
        "metrics": {} if median is None else {"ttft": metric},
    }  # fmt: skip


PLANE = Plane("a", "b", [1, 2], ["x", "y"], {})
TRIALS = [
    trial(1, 0.5, a=1, b="x"),
    trial(2, None, runs=(False, False), a=2, b="x"),
    trial(3, None, runs=(), a=1, b="y"),
]


def test_each_cell_says_its_figure_or_why_there_is_none():
    (cells,) = heat_figure(TRIALS, PLANE, "ttft")["data"]
    assert cells["text"] == [["500\u00a0ms<br>n = 1", ""], ["", ""]]
    assert cells["z"] == [[500.0, None], [None, None]]
    assert cells["customdata"] == [[1, 2], [3, None]]


def test_a_cell_on_stand_ins_says_its_band_and_has_no_colour():
    bands = {2: {"ttft": Band(0.1, 0.4, "s", 1)}}
    figure = heat_figure(TRIALS, PLANE, "ttft", bands)
    assert figure["layout"]["annotations"][0]["text"] == "100 – 400\u00a0ms<br>modelled,<br>speculative"
    assert figure["data"][0]["z"][0][1] is None


def test_a_map_of_nothing_but_bands_is_drawn():
    trials = [trial(2, None, runs=(False,), a=2, b="x", c=True, d="one")]
    found = heat_map(MATRIX, trials, {}, {2: {"tpot": Band(0.1, 0.4, "s", 1)}})
    assert found is not None and found.metrics == ["tpot"]


def test_what_has_no_colour_is_written_into_its_cell():
    figure = heat_figure(TRIALS, PLANE, "ttft")
    written = {(one["x"], one["y"]): one["text"] for one in figure["layout"]["annotations"]}
    assert written == {(1, 0): "invalid<br>2 runs", (0, 1): "waiting", (1, 1): "left out"}


def test_true_and_one_are_different_settings():
    plane = Plane("a", "b", [1, True], ["x"], {})
    (cells,) = heat_figure([trial(1, a=True, b="x")], plane, "ttft")["data"]
    assert cells["customdata"] == [[None, 1]]


def cube() -> list[dict[str, Any]]:
    places = [(a, b, c) for a in MATRIX["a"] for b in MATRIX["b"] for c in MATRIX["c"]]
    return [trial(i, float(i + 1), a=a, b=b, c=c, d="one") for i, (a, b, c) in enumerate(places)]


def test_the_axes_with_most_values_are_shown_first_and_the_others_are_held():
    found = heat_map(MATRIX, cube(), {})
    assert found is not None
    assert (found.x, found.y, found.metric) == ("b", "a", "ttft")
    assert [(one.path, one.value, list(one.choices)) for one in found.held] == [("c", "true", ["true", "false"])]
    other = heat_map(MATRIX, cube(), {"at.c": "false"})
    assert other is not None
    assert found.figure["data"][0]["z"] != other.figure["data"][0]["z"]


@pytest.mark.parametrize("matrix", [{}, {"a": [1, 2]}, {"a": [1, 2], "d": ["one"]}])
def test_there_is_no_map_of_fewer_than_two_axes(matrix):
    assert heat_map(matrix, cube(), {}) is None


def test_there_is_no_map_before_anything_was_measured():
    assert heat_map(MATRIX, [trial(1, None, a=1, b="x", c=True, d="one")], {}) is None


@pytest.mark.parametrize("asked", [{"x": "a", "y": "a"}, {"x": "d"}, {"metric": "nothing", "at.c": "perhaps"}])
def test_what_the_address_cannot_mean_is_taken_for_unsaid(asked):
    found = heat_map(MATRIX, cube(), asked)
    assert found is not None and found.x != found.y and found.metric == "ttft"
