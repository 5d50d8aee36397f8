"""A ladder of stored runs: its API, its page, and what is drawn."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import ready_node, submit
from django.test import Client
from ended_runs import BEGIN, end_run
from modelled_node import text_of

from experiments.analysis.waterfall import waterfall
from experiments.figures.waterfall import TOTAL, waterfall_figure
from experiments.ladders import ladders_of
from experiments.models import Experiment
from labsite.accounts.models import Project, Role

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]
LADDER = {
    "kind": "ladder",
    "steps": [
        {"label": "8-bit weights", "set": {"engine.weights": "int8"}},
        {"label": "a <b>smaller</b> batch", "set": {"engine.max_num_seqs": 2}},
    ],
}
# by rung, of three repeats
FIGURES = [[100.0, 102.0, 98.0], [150.0, 153.0, 149.0], [140.0, 141.0, 139.0]]


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


def climbed(project: Project, matrix: dict[str, Any] | None = None) -> Experiment:
    """A ladder whose runs have ended, each ladder's figures ten times those of the one before."""
    node = ready_node("bench")
    experiment = submit(project, design=LADDER, matrix=matrix or {}, repeats=3)
    for run in experiment.runs.select_related("trial").order_by("position"):
        ladder, rung = divmod(run.trial.index, 3)
        end_run(run, node, FIGURES[rung][run.repeat] * 10**ladder, "output_throughput", BEGIN)
    return experiment


def asked(caller: Caller, experiment: Experiment, query: str = "") -> Any:
    return caller.get(f"/experiments/{experiment.pk}/ladder?{query}").json()


def test_only_people_with_a_token_may() -> None:
    assert_people_only("GET", "/experiments/1/ladder")


def test_every_step_has_its_gain_with_interval_floor_and_number(caller: Caller, project: Project) -> None:
    found = asked(caller, climbed(project))
    (ladder,) = found["ladders"]
    assert [rung["label"] for rung in ladder["rungs"]] == ["baseline", "8-bit weights", "a <b>smaller</b> batch"]
    assert [rung["mean"] for rung in ladder["rungs"]] == pytest.approx([100, 452 / 3, 140])
    gains = [rung["gain"] for rung in ladder["rungs"]]
    assert gains[0] is None
    assert [gain["verdict"] for gain in gains[1:]] == ["better", "worse"]
    for gain in (*gains[1:], ladder["total"]):
        assert gain["low"] < gain["difference"] < gain["high"]
        assert gain["n"] == 3 and 0 < gain["noise_floor"] < 0.1 and gain["method"]
    assert ladder["total"]["relative"] == pytest.approx(0.4)


def test_a_matrix_gives_one_ladder_for_each_combination(caller: Caller, project: Project) -> None:
    found = asked(caller, climbed(project, {"engine.block_size": [16, 32]}))
    assert [one["settings"] for one in found["ladders"]] == [{"engine.block_size": 16}, {"engine.block_size": 32}]
    assert [one["rungs"][0]["mean"] for one in found["ladders"]] == pytest.approx([100, 1000])


def test_before_any_run_has_ended_there_are_rungs_without_figures(caller: Caller, project: Project) -> None:
    ready_node("bench")
    waiting = submit(project, design=LADDER, matrix={})
    (ladder,) = asked(caller, waiting)["ladders"]
    assert [(rung["mean"], rung["gain"], rung["n"]) for rung in ladder["rungs"]] == [(None, None, 0)] * 3
    assert ladder["total"] is None


def test_other_designs_and_unknown_figures_are_refused(caller: Caller, project: Project) -> None:
    climbing = climbed(project)
    factorial = submit(project)
    assert "no ladder" in refused(caller.get(f"/experiments/{factorial.pk}/ladder"), 409)["detail"]
    error = refused(caller.get(f"/experiments/{climbing.pk}/ladder?metric=speed"), 422)
    assert error["errors"][0]["field"] == "metric"


def test_the_page_draws_the_ladder_that_the_address_names(browser: Client, project: Project) -> None:
    experiment = climbed(project, {"engine.block_size": [16, 32]})
    page = text_of(browser.get(f"/experiments/{experiment.pk}/?ladder=1"))
    assert "What each step gains" in page and "<b>smaller" not in page
    drawn = re.search(r'<script id="ladder-figure" type="application/json">(.*?)</script>', page, re.S)
    assert drawn is not None
    (bars,) = json.loads(drawn[1])["data"]
    assert len(bars["x"]) == 4 and bars["x"][-1] == TOTAL
    assert bars["y"][0] == pytest.approx(1000)
    for address in ("?ladder=99", "?ladder=x", "?step_metric=none", "?ladder=-1"):
        assert browser.get(f"/experiments/{experiment.pk}/{address}").status_code == 200


def test_bars_stand_on_each_other_and_show_the_interval(project: Project) -> None:
    (ladder,) = ladders_of(climbed(project))
    (bars,) = waterfall_figure(ladder.waterfall("output_throughput"))["data"]
    tops = [base + height for base, height in zip(bars["base"], bars["y"], strict=True)]
    assert bars["base"][1:3] == pytest.approx(tops[:2])
    assert bars["base"][3] == 0 and tops[3] == pytest.approx(tops[2])
    gain = waterfall(ladder.labels, ladder.trials, "output_throughput").rungs[1].gain
    assert gain is not None
    assert bars["error_y"]["array"][1] == pytest.approx(gain["high"] - gain["difference"])
    assert bars["error_y"]["arrayminus"][1] == pytest.approx(gain["difference"] - gain["low"])
