"""One metric against another: curves over the load, measured solid, modelled dashed, and speculative areas."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from experiments.analysis.distributions import Pooled
from experiments.analysis.speculative import Band
from experiments.figures.distributions import TrialDistribution, box_figure, curve_figure
from experiments.figures.trials import curves_of, tradeoff_figure

X, Y = "interactivity", "output_throughput_per_kw"
USERS = "workload.arrival.max_concurrency"


def trial(id: int, x: float | None, y: float = 1.0, modelled: bool = True, **settings: Any) -> dict[str, Any]:
    def metric(value: float, unit: str) -> dict[str, Any]:
        return {"median": value, "low": value / 2, "high": value * 2, "n": 1, "unit": unit}

    metrics = {} if x is None else {X: metric(x, "tok/s"), Y: metric(y, "tok/s/kW")}
    paths = {USERS if key == "users" else key: value for key, value in settings.items()}
    return {"id": id, "experiment_id": 1, "settings": paths, "modelled": modelled, "runs": [], "metrics": metrics}


CHIPS = [
    trial(1, 20.0, 9.0, chip="a", users=8),
    trial(2, 50.0, 3.0, chip="a", users=1),
    trial(3, 30.0, 5.0, chip="b", users=1),
]


def drawn(trials: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    return tradeoff_figure(trials, X, Y, **more)["data"]


def test_trials_that_differ_in_load_alone_are_one_curve_in_the_order_of_x():
    a, b = drawn([CHIPS[1], CHIPS[0], CHIPS[2]])
    assert (a["name"], a["x"], a["customdata"], a["mode"]) == (
        "chip a (modelled)",
        [20.0, 50.0],
        [1, 2],
        "lines+markers",
    )
    assert a["text"] == ["chip a · max_concurrency 8 (modelled)", "chip a · max_concurrency 1 (modelled)"]
    assert (b["name"], b["mode"]) == ("chip b · max_concurrency 1 (modelled)", "markers")
    assert a["line"]["color"] != b["line"]["color"]
    assert a["error_x"]["array"] == [20.0, 50.0] and a["error_x"]["arrayminus"] == [10.0, 25.0]


def test_a_measured_curve_is_solid_and_filled_and_a_modelled_one_dashed_and_hollow():
    measured = [one | {"modelled": False, "id": one["id"] + 10} for one in CHIPS[:2]]
    lines = {trace["line"]["dash"]: trace["marker"]["symbol"] for trace in drawn([*measured, *CHIPS[:2]])}
    assert lines == {"solid": "circle", "dash": "diamond-open"}


def test_trials_of_two_experiments_are_two_curves_named_after_them():
    other = [one | {"experiment_id": 2, "experiment_name": "second"} for one in CHIPS[:2]]
    first = [one | {"experiment_name": "first"} for one in CHIPS[:2]]
    assert [curve.label for curve in curves_of([*first, *other])] == [
        "chip a · first (modelled)",
        "chip a · second (modelled)",
    ]


def test_of_more_curves_than_hues_no_two_look_alike():
    looks = {(curve.hue, curve.symbol) for curve in curves_of([trial(n, 1.0, chip=f"c{n}") for n in range(20)])}
    assert len(looks) == 20


def test_what_is_speculative_is_an_area_and_never_a_point_or_on_the_front():
    bands = {9: {X: Band(10.0, 40.0, "tok/s", 1), Y: Band(2.0, 8.0, "tok/s/kW", 1)}}
    (area,) = drawn([trial(9, None, chip="jalapeno")], bands=bands, front=[9])
    assert (area["mode"], area["fill"], area["line"]["dash"]) == ("lines", "toself", "dot")
    assert area["x"] == [10.0, 40.0, 40.0, 10.0, 10.0] and area["y"] == [2.0, 2.0, 8.0, 8.0, 2.0]
    assert area["name"] == "chip jalapeno (modelled), speculative"


def test_a_band_of_another_metric_draws_nothing():
    assert drawn([trial(9, None)], bands={9: {X: Band(1.0, 2.0, "tok/s", 1)}}) == []


def test_the_front_of_modelled_trials_is_dashed():
    front = drawn(CHIPS, front=[3, 1])[0]
    assert (front["name"], front["line"]["dash"], front["x"]) == ("Pareto front (modelled)", "dash", [30.0, 20.0])


def test_what_is_drawn_is_what_plotly_takes():
    bands = {1: {X: Band(10.0, 30.0, "tok/s", 1), Y: Band(5.0, 15.0, "tok/s", 1)}}
    figure = tradeoff_figure(CHIPS, X, Y, [1, 2], bands)
    # raises where a trace has a property or a value that Plotly knows not
    assert len(go.Figure(figure).data) == len(figure["data"]) > 3
    pooled = Pooled(5, 1, (0.1, 0.2, 0.3), (0.2, 0.6, 1.0))
    shown = [TrialDistribution("one", 0, True, pooled), TrialDistribution("two", 1, False, pooled)]
    for drawn_one in (curve_figure(shown, "ttft", "s"), box_figure(shown, "ttft", "s")):
        assert len(go.Figure(drawn_one).data) == 2
