"""The run page of a modelled system: its panel, its phases, and the steps of several engines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from modelled_node import figure, text_of
from system_of_two_pools import FACTS, step

from experiments.figures.engines import kv_figure, lanes_figure
from experiments.figures.phases import phase_figure
from experiments.models import Attempt, Experiment, Run
from experiments.steps import ShownStep, latest_engines, shown_steps
from experiments.system_facts import phases_of
from runners.events import Step

STEPS = [step(1, "prefill-0", 0.0, 64, 0), step(2, "decode-0", 0.05), step(3, "prefill-1", 0.1, 64, 0),
         step(4, "decode-0", 0.15), step(5, "decode-10", 0.2)]  # fmt: skip


def test_each_phase_is_a_bar_of_what_bounded_it_and_says_that_it_is_modelled():
    drawn = phase_figure(phases_of(FACTS))
    assert [bar["name"] for bar in drawn["data"]] == ["compute", "bandwidth", "link", "overhead"]
    assert drawn["data"][1]["x"] == [0.5, 7.0]
    assert "modelled" in drawn["layout"]["xaxis"]["title"]["text"]


def test_a_part_that_no_phase_has_is_not_in_the_legend():
    phases = phases_of({"phases": {"decode": {"seconds": 0.01, "bandwidth_s": 0.01, "bound": "bandwidth"}}})
    drawn = phase_figure(phases)
    assert [(bar["name"], bar["x"]) for bar in drawn["data"]] == [("bandwidth", [10.0])]


def test_every_engine_has_its_lane_and_its_line():
    shown = [ShownStep(1, one) for one in STEPS]
    lanes = lanes_figure(shown)
    assert lanes["layout"]["yaxis"]["categoryarray"] == ["prefill-0", "prefill-1", "decode-0", "decode-10"]
    assert {bar["name"]: bar["y"] for bar in lanes["data"]} == {
        "prefill": ["prefill-0", "prefill-1"],
        "decode": ["decode-0", "decode-0", "decode-10"],
    }
    lines = kv_figure(shown, modelled=True)["data"]
    assert [line["y"] for line in lines] == [[25.0], [25.0], [25.0, 25.0], [25.0]]
    assert {line["line"]["dash"] for line in lines} == {"dash"}


def test_of_many_engines_those_of_a_role_share_their_hue_and_their_name():
    shown = [ShownStep(1, step(n, f"{'decode' if n % 2 else 'prefill'}-{n}", n * 0.1)) for n in range(20)]
    lines = kv_figure(shown, modelled=True)["data"]
    assert len(lines) == 20
    assert [line["name"] for line in lines if line["showlegend"]] == ["prefill", "decode"]
    assert len({line["line"]["color"] for line in lines}) == 2


def of_a_system(run: Run, **facts: Any) -> Attempt:
    """Makes what is stored of the run's attempt that of a system."""
    attempt = Attempt.objects.get(run=run)
    attempt.report["facts"] |= {**FACTS, **facts}
    attempt.save()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM experiments_step WHERE run_id = %s", [run.pk])
    store(run.pk, attempt.number, STEPS)
    return attempt


def store(run_id: int, attempt: int, steps: list[Step]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY experiments_step (run_id, attempt, seq, data, index, start_s) FROM STDIN") as copy,
    ):
        for one in steps:
            copy.write_row((run_id, attempt, one.index, one.model_dump_json(), one.index, one.start_s))


@pytest.mark.django_db(transaction=True)
class TestPages:
    def test_the_panel_tells_pools_phases_transfers_and_price(self, browser, finished: Experiment):
        run = finished.runs.first()
        of_a_system(run)
        response = browser.get(f"/runs/{run.pk}/")
        page = text_of(response)
        assert "2 prefill engines on 1 × h100-sxm each → 1 decode engine on 8 × mi300x" in page
        assert "bound by bandwidth, and the KV cache lacked room" in page
        assert "its requests spent 25.0 % of their time in it waiting" in page
        assert "assumed: the catalog’s prices" in page
        assert '<span class="tag modelled">modelled, calibrated</span>' in page[page.index('id="system"') :]
        assert len(figure(response, "phases")["data"]) == 4
        assert page.index('id="system"') > page.index('id="results"')

    def test_a_run_of_one_engine_has_neither_lanes_nor_a_choice_of_engines(self, browser, finished: Experiment):
        run = finished.runs.first()
        page = text_of(browser.get(f"/runs/{run.pk}/"))
        assert "steps-engine" not in page and "chart-kv-engines" not in page
        assert browser.get(f"/runs/{run.pk}/steps").json()["kv"] is None

    def test_the_steps_of_all_engines_are_lanes_and_of_one_its_own(self, browser, finished: Experiment):
        run = finished.runs.first()
        of_a_system(run)
        page = text_of(browser.get(f"/runs/{run.pk}/"))
        assert "<option>prefill-1</option>" in page and "chart-kv-engines" in page
        answer = browser.get(f"/runs/{run.pk}/steps").json()
        assert (answer["shown"], len(answer["figure"]["data"]), len(answer["kv"]["data"])) == (5, 2, 4)
        one = browser.get(f"/runs/{run.pk}/steps?engine=decode-0").json()
        assert (one["shown"], [trace["name"] for trace in one["figure"]["data"]]) == (
            2,
            ["prefill", "decode", "duration"],
        )
        assert "bound by bandwidth, 25 % on links" in json.dumps(one)
        assert browser.get(f"/runs/{run.pk}/steps?engine=nonsense").json()["shown"] == 5

    def test_while_it_runs_its_engines_are_those_of_its_latest_steps(self, finished: Experiment):
        attempt = of_a_system(finished.runs.first())
        assert latest_engines(attempt.run_id, attempt.number) == ["decode-0", "decode-10", "prefill-0", "prefill-1"]

    def test_of_many_steps_no_engine_loses_its_places(self, finished: Experiment):
        run_id = 10**13
        store(run_id, 1, [step(n, f"serve-{n % 2}", n * 0.1) for n in range(1, 401)])
        shown = shown_steps(run_id, 1, places=10)
        assert sum(one.steps for one in shown) == 400
        assert [sum(one.step.engine == f"serve-{n}" for one in shown) for n in (0, 1)] == [10, 10]
        assert len(shown_steps(run_id, 1, places=1000, engine="serve-1")) == 200
