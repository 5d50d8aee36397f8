"""The cost model's prediction beside measured runs: when it is made, from what, and how it is shown."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

import pytest
from control_plane import person, ready_node, submit, team
from django.test import Client
from django.utils import timezone
from measured_node import CEILINGS, FACTS, MEASURED, SHAPE, measure_run, measured_node
from modelled_node import MODELLED, finish_run, modelled_node, text_of

from experiments.analysis.prediction_band import next_ratio
from experiments.exports.runs import run_columns, run_pieces
from experiments.models import Attempt, Experiment, Run, RunState
from experiments.predictions import LOOKED_BACK, prediction_of
from experiments.services import predicting
from experiments.services.predicting import due_runs, earlier_runs, predict_run, start_predicting, with_bands
from hardware.models import Node
from labsite.accounts.models import Project, User
from labsite.processes import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]
SUMMARY = {"metrics": {"output_throughput": {"value": 110.0, "unit": "tok/s", "n": 12, "percentiles": {}}}}
STORED = {
    "state": "calibrated",
    "basis": "the machine's measured ceilings and 900 steps of 2 earlier valid runs of this node",
    "metrics": {"output_throughput": {"predicted": 100.0, "low": 90.0, "high": 105.0, "unit": "tok/s"}},
}


def measured(experiment: Experiment, node: Node, **engine: Any) -> list[Run]:
    """The experiment's runs as if the node had measured them, one after another: with a report and a summary alone."""
    now, runs = timezone.now() - dt.timedelta(seconds=60), list(experiment.runs.order_by("position"))
    for place, run in enumerate(runs):
        facts = {"engine": {"num_blocks": 64, "threads": 1, **engine}}
        report = {"outcome": "succeeded", "facts": facts, "events": 1}
        attempt = Attempt.objects.create(run=run, number=1, node=node, state="succeeded", report=report)
        run.state, run.valid, run.final_attempt, run.summary = RunState.SUCCEEDED, True, attempt, SUMMARY
        run.started_at, run.ended_at = (now + dt.timedelta(seconds=2 * place + i) for i in (0, 1))
        run.save()
    return runs


@pytest.fixture
def node(db: None) -> Node:
    return measured_node()


def test_real_runs_over_a_shape_are_predicted_from_what_was_measured_before_them(
    project: Project, researcher: User, browser: Client, redis_url: str, tmp_path: Path, node: Node
) -> None:
    made = submit(project, researcher, **MEASURED, matrix={"model.shape.hidden_size": [128, 256]})
    runs = [measure_run(run, redis_url, tmp_path) for run in made.runs.order_by("position")]
    assert {run.state for run in runs} == {"succeeded"}, [run.reason for run in runs]
    assert {run.spec["model"]["shape"]["hidden_size"] for run in runs} == {128, 256}
    Run.objects.update(valid=True)  # whatever else this machine had to do meanwhile

    assert list(due_runs(timezone.now())) == runs
    assert [predict_run(run) for run in due_runs(timezone.now())] == [True, True]
    first, second = (prediction_of(Run.objects.get(pk=run.pk)) for run in runs)
    assert first is not None and first.state == "uncalibrated" and "no earlier run" in first.basis
    assert second is not None and second.state == "calibrated" and "1 earlier valid run of this node" in second.basis
    for name, one in second.metrics.items():
        assert one.measured is not None and one.residual == pytest.approx(one.measured / one.predicted - 1), name
        assert one.low is not None and one.low <= one.predicted <= (one.high or 0)
    assert not due_runs(timezone.now()).exists()

    page = text_of(browser.get(f"/runs/{runs[1].pk}/"))
    assert "What the cost model says" in page and "modelled, calibrated" in page and "Residual" in page
    assert "random weights" in page


def test_a_run_is_due_once_it_has_results_and_no_measured_node_works(
    project: Project, researcher: User, node: Node
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    assert list(due_runs(timezone.now())) == [run]
    other = submit(project, researcher, **MEASURED).runs.get()
    Attempt.objects.create(run=other, number=1, node=node, state="running")
    assert not due_runs(timezone.now()).exists()
    assert list(due_runs(timezone.now() + predicting.PATIENCE)) == [run], "it does not wait for ever"


def test_runs_without_results_deleted_ones_and_old_ones_are_not_due(
    project: Project, researcher: User, node: Node
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    assert not due_runs(timezone.now() + LOOKED_BACK).exists()
    Run.objects.update(summary=None)
    assert not due_runs(timezone.now()).exists()
    Run.objects.update(summary=SUMMARY)
    Experiment.objects.filter(pk=run.experiment_id).update(deleted_at=timezone.now())
    assert not due_runs(timezone.now()).exists()


def test_a_modelled_run_is_never_predicted(project: Project, researcher: User, redis_url: str) -> None:
    modelled_node()
    run = finish_run(submit(project, researcher, **{**MODELLED, "matrix": {}, "repeats": 1}).runs.get(), redis_url)
    assert run.state == "succeeded" and not due_runs(timezone.now()).exists()


def test_only_what_had_ended_before_calibrates_and_never_the_run_itself(
    project: Project, researcher: User, node: Node
) -> None:
    first, second, third = measured(submit(project, researcher, **{**MEASURED, "repeats": 3}), node)
    assert earlier_runs(first) == [] and earlier_runs(third) == [second, first]
    Run.objects.filter(pk=second.pk).update(valid=False)
    assert earlier_runs(third) == [first]


def test_runs_of_another_node_or_with_other_threads_calibrate_nothing(
    project: Project, researcher: User, node: Node
) -> None:
    measured(submit(project, researcher, **MEASURED), ready_node("elsewhere"))
    measured(submit(project, researcher, **MEASURED), node, threads=2)
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now())
    run.refresh_from_db()
    assert earlier_runs(run) == []


def test_runs_of_its_own_model_and_weights_come_first(project: Project, researcher: User, node: Node) -> None:
    (alike,) = measured(submit(project, researcher, **MEASURED), node)
    measured(submit(project, researcher, **{**MEASURED, "model": {"shape": {**SHAPE, "layers": 3}}}), node)
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now())
    run.refresh_from_db()
    assert earlier_runs(run)[0] == alike and len(earlier_runs(run)) == 2


def test_a_prediction_is_written_once(project: Project, researcher: User, node: Node) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    Run.objects.update(prediction=STORED)
    assert predict_run(run) is False
    run.refresh_from_db()
    assert run.prediction == STORED


@pytest.mark.parametrize(
    ("facts", "ceilings", "told"),
    [(FACTS, {}, "ceilings: were measured on None"), ({**FACTS, "memory": {}}, CEILINGS, "facts.memory.usable_bytes")],
)
def test_why_there_is_no_prediction_is_kept(
    project: Project, researcher: User, node: Node, facts: dict[str, Any], ceilings: dict[str, Any], told: str
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    Node.objects.update(facts=facts, ceilings=ceilings)
    assert predict_run(Run.objects.get(pk=run.pk))
    run.refresh_from_db()
    assert told in run.prediction["why_not"] and not due_runs(timezone.now()).exists()


def test_earlier_predictions_of_the_node_band_the_next_one(project: Project, researcher: User, node: Node) -> None:
    *earlier, last = measured(submit(project, researcher, **{**MEASURED, "repeats": 7}), node)
    for run, predicted in zip(earlier, (90.0, 95.0, 100.0, 105.0, 110.0, 115.0), strict=True):
        figure = {"predicted": predicted, "low": None, "high": None, "unit": "tok/s"}
        Run.objects.filter(pk=run.pk).update(prediction={**STORED, "metrics": {"output_throughput": figure}})
    figure = with_bands(STORED, last)["metrics"]["output_throughput"]
    assert figure["runs"] == 6 and figure["predicted"] == 100.0
    # Measured 110 of each: ratios 1.22 … 0.957.
    low, high = next_ratio([110 / one for one in (90.0, 95.0, 100.0, 105.0, 110.0, 115.0)]) or (0.0, 0.0)
    assert (figure["low"], figure["high"]) == pytest.approx((100 * low, 100 * high))
    assert with_bands(STORED, earlier[3]) == STORED, "three are too few"


def test_a_run_too_long_to_simulate_says_so(
    project: Project, researcher: User, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicting, "CPU_LIMIT_S", 3)
    workload = {**MEASURED["workload"], "num_requests": 1_000_000}  # type: ignore[dict-item]
    (run,) = measured(submit(project, researcher, **{**MEASURED, "workload": workload}), node)
    assert predict_run(run)
    run.refresh_from_db()
    assert run.prediction == {"why_not": "simulating the run takes more than 3 s of computing"}


def test_a_run_that_the_machine_had_no_time_for_stays_due(
    project: Project, researcher: User, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicting, "WALL_LIMIT_S", 0.01)
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    with pytest.raises(predicting.NoTime):
        predict_run(run)
    assert list(due_runs(timezone.now())) == [run]


def test_what_is_due_is_predicted_beside_the_caller(project: Project, researcher: User, node: Node) -> None:
    measured(submit(project, researcher, **{**MEASURED, "repeats": 2}), node, num_blocks=None)
    start_predicting()
    assert wait_until(lambda: not Run.objects.filter(prediction__isnull=True).exists(), 30, 0.05)


def test_a_run_whose_report_lacks_what_is_needed_does_not_hold_up_the_others(
    project: Project, researcher: User, node: Node
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node, num_blocks=None)
    assert predict_run(run)
    run.refresh_from_db()
    assert "num_blocks" in run.prediction["why_not"]


@pytest.mark.parametrize("engine", [["engine"], "engine", 3])
def test_a_report_in_another_form_does_not_hold_up_the_others(
    project: Project, researcher: User, node: Node, engine: Any
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    Attempt.objects.update(report={"outcome": "succeeded", "facts": {"engine": engine}, "events": 1})
    assert predict_run(Run.objects.get(pk=run.pk))
    run.refresh_from_db()
    assert "can't be read" in run.prediction["why_not"]


def test_an_answer_that_the_database_would_not_keep_is_no_prediction(
    project: Project, researcher: User, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    answered = subprocess.CompletedProcess([], 0, stdout='{"state": "calibrated", "metrics": NaN}', stderr="")
    monkeypatch.setattr(predicting.subprocess, "run", lambda *_, **__: answered)
    assert predict_run(run)
    run.refresh_from_db()
    assert "answered NaN" in run.prediction["why_not"]


def test_the_api_shows_the_residual_of_the_figures_as_they_are_now(
    project: Project, researcher: User, browser: Client, node: Node
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    assert browser.get(f"/api/v1/runs/{run.pk}").json()["prediction"] is None
    Run.objects.update(prediction=STORED)
    shown = browser.get(f"/api/v1/runs/{run.pk}").json()["prediction"]
    figure = {"unit": "tok/s", "predicted": 100.0, "low": 90.0, "high": 105.0, "measured": 110.0, "runs": None}
    assert shown["modelled"] is True and shown["state"] == "calibrated" and shown["why_not"] is None
    assert shown["metrics"] == {"output_throughput": {**figure, "residual": pytest.approx(0.1)}}


def test_an_export_has_the_prediction_beside_each_run(project: Project, researcher: User, node: Node) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    assert not any("modelled_" in column.name for column in run_columns(run.experiment))
    Run.objects.update(prediction=STORED)
    columns = {column.name for column in run_columns(run.experiment)}
    ((row,),) = run_pieces(run.experiment)
    assert row.keys() <= columns
    assert row["modelled_output_throughput_tok_per_s"] == 100.0 and row["prediction_state"] == "calibrated"
    assert row["residual_output_throughput"] == pytest.approx(0.1) and row.get("residual_tpot") is None


def test_the_page_says_that_a_prediction_is_still_to_come_and_then_shows_it(
    project: Project, researcher: User, browser: Client, node: Node
) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    assert "when the measured nodes have nothing to do" in text_of(browser.get(f"/runs/{run.pk}/"))
    Run.objects.update(ended_at=run.ended_at - LOOKED_BACK)
    assert "What the cost model says" not in text_of(browser.get(f"/runs/{run.pk}/"))
    Run.objects.update(prediction=STORED)
    page = text_of(browser.get(f"/runs/{run.pk}/prediction"))
    assert "modelled, calibrated" in page and "outside the band" in page and "data-hx-get" not in page
    Run.objects.update(prediction={"why_not": "the node's ceilings are unknown"})
    assert "No prediction: the node&#x27;s ceilings are unknown." in text_of(browser.get(f"/runs/{run.pk}/prediction"))


def test_the_table_of_runs_has_the_residual_beside_each(
    project: Project, researcher: User, browser: Client, node: Node
) -> None:
    predicted, without, waiting = measured(submit(project, researcher, **{**MEASURED, "repeats": 3}), node)
    Run.objects.filter(pk=predicted.pk).update(prediction=STORED)
    Run.objects.filter(pk=without.pk).update(prediction={"why_not": "too large"})
    page = text_of(browser.get(f"/experiments/{waiting.experiment_id}/"))
    assert "+10.0 %<small>of 100 tok/s modelled, calibrated</small>" in page
    assert '<small title="too large">no prediction</small>' in page


def test_a_stranger_sees_no_prediction(project: Project, researcher: User, node: Node) -> None:
    (run,) = measured(submit(project, researcher, **MEASURED), node)
    stranger = Client()
    stranger.force_login(person(team()))
    assert stranger.get(f"/runs/{run.pk}/prediction").status_code == 404
