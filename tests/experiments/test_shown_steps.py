"""The steps of a chart: all of them where they fit, and of more than fit the peaks, each step stood for once."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from control_plane import submit
from django.db import connection
from modelled_node import MODELLED, figure, modelled_node, text_of

from experiments.models import Experiment, StepRecord
from experiments.steps import shown_steps
from runners.events import Step

pytestmark = pytest.mark.django_db(transaction=True)
ATTEMPT = 1
RUN_IDS = itertools.count(10**12)


@pytest.fixture
def run_id() -> int:
    """Of no run: record tables are not emptied between tests."""
    return next(RUN_IDS)


def store(run_id: int, steps: list[Step]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY experiments_step (run_id, attempt, seq, data, index, start_s) FROM STDIN") as copy,
    ):
        for seq, step in enumerate(steps, 1):
            copy.write_row((run_id, ATTEMPT, seq, step.model_dump_json(), step.index, step.start_s))


def step(index: int, start_s: float, prefill: int = 0, decode: int = 1, duration_s: float = 0.01) -> Step:
    return Step(
        index=index, start_s=start_s, duration_s=duration_s, prefill_tokens=prefill, decode_tokens=decode,
        running=decode, waiting=0, kv_used_blocks=1, kv_cached_blocks=0, kv_free_blocks=9, kv_used_slots=5,
    )  # fmt: skip


def test_few_steps_are_shown_as_they_are(run_id: int):
    store(run_id, [step(1, 0.0, prefill=100), step(2, 0.1), step(3, 0.2)])
    shown = shown_steps(run_id, ATTEMPT)
    assert [(one.step.index, one.step.start_s, one.step.prefill_tokens, one.steps) for one in shown] == [
        (1, 0.0, 100, 1), (2, 0.1, 0, 1), (3, 0.2, 0, 1),
    ]  # fmt: skip
    assert shown_steps(run_id, ATTEMPT + 1) == []


def test_of_many_steps_each_place_shows_its_largest_and_none_is_lost_from_the_count(run_id: int):
    rng = random.Random(4)
    steps = [step(n, n * 0.01, decode=rng.randint(1, 64)) for n in range(1, 5001)]
    steps[2500] = step(2501, 25.01, prefill=2048)
    store(run_id, steps)
    shown = shown_steps(run_id, ATTEMPT, places=100)
    assert len(shown) == 100
    assert sum(one.steps for one in shown) == 5000
    assert [one.step.start_s for one in shown] == sorted(one.step.start_s for one in shown)
    assert max(one.step.prefill_tokens for one in shown) == 2048


def test_a_narrower_span_gives_the_steps_themselves(run_id: int):
    store(run_id, [step(n, n * 0.01) for n in range(1, 1001)])
    shown = shown_steps(run_id, ATTEMPT, 2.0, 2.5, places=100)
    assert [one.step.index for one in shown] == list(range(200, 251))
    assert {one.steps for one in shown} == {1}


def test_steps_at_one_instant_make_one_place(run_id: int):
    store(run_id, [step(n, 1.0, decode=n) for n in range(1, 21)])
    (shown,) = shown_steps(run_id, ATTEMPT, places=10)
    assert (shown.steps, shown.step.decode_tokens) == (20, 20)


@pytest.mark.parametrize("span", ["", "?from=0&to=1e3", "?from=nan&to=inf", "?from=x&to=", "?from=-1e400&to=1e400"])
def test_the_run_page_asks_for_the_steps_of_a_span(browser, finished: Experiment, span: str):
    run = finished.runs.first()
    answer = browser.get(f"/runs/{run.pk}/steps{span}").json()
    count = StepRecord.objects.filter(run_id=run.pk).count()
    assert answer["steps"] == count > 0
    prefill, decode, duration = answer["figure"]["data"]
    assert sum(prefill["y"]) + sum(decode["y"]) > 0
    assert len(duration["y"]) == answer["shown"] == count


def test_a_span_without_steps_and_a_run_without_an_attempt_give_none(browser, finished: Experiment):
    assert browser.get(f"/runs/{finished.runs.first().pk}/steps?from=1e9").json()["steps"] == 0
    waiting = submit(finished.project, finished.owner, **MODELLED).runs.first()
    assert browser.get(f"/runs/{waiting.pk}/steps").json()["steps"] == 0


def test_the_page_tells_its_script_of_every_chart_on_the_runs_clock(browser, finished: Experiment):
    response = browser.get(f"/runs/{finished.runs.first().pk}/")
    page = text_of(response)
    assert page.count("data-clock") == 8
    assert set(figure(response, "live-figures")) == {"throughput", "ttft", "itl", "queue", "kv", "owners"}


def test_modelled_samples_account_for_every_block(browser, finished: Experiment):
    run = finished.runs.first()
    with connection.cursor() as cursor:
        cursor.execute("SELECT data->'kv_blocks' FROM experiments_sample WHERE run_id = %s ORDER BY seq", [run.pk])
        told = [json.loads(row[0]) for row in cursor.fetchall()]
    totals = {sum(one["owners"].values()) + one["others"] + one["shared"] + one["cached"] + one["free"] for one in told}
    assert len(totals) == 1 and totals != {0}


def test_a_run_that_ended_without_a_sample_has_no_empty_charts(browser, project, researcher):
    modelled_node()
    run = submit(project, researcher, **MODELLED).runs.first()
    assert "chart-throughput" in text_of(browser.get(f"/runs/{run.pk}/"))
    browser.post(f"/runs/{run.pk}/cancel")
    assert "chart-throughput" not in text_of(browser.get(f"/runs/{run.pk}/"))
