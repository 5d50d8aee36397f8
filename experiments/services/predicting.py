"""Puts the cost model's prediction beside each measured run, once its results are kept and its machine has time.

    NULL → {state, basis, metrics}    predicted, calibrated on earlier valid runs of the node or not at all
    NULL → {why_not}                  the machine or the run can't be modelled, or only in too long a time

It runs in a process of its own, the least urgent there is: nothing waits for it. A prediction is written by
compare-and-set, once; what a crash interrupts is begun again by the schedule. Runs measured on this machine meanwhile
would suffer, so it waits until no measured node works, but no longer than PATIENCE.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, NoReturn

from django.db import connections
from django.db.models import QuerySet
from django.utils import timezone

from experiments.analysis.prediction_band import next_ratio
from experiments.engine_offers import BUILTIN
from experiments.models import ATTEMPT_LIVE, Attempt, RequestRecord, Run, RunState, StepRecord
from experiments.predictions import LOOKED_BACK, prediction_of
from hardware.models import NodeKind
from runners.events import RequestRecord as RequestEvent
from runners.modelled.front import intake_of

log = logging.getLogger(__name__)

PROGRAM = "runners.modelled.beside"
PATIENCE = dt.timedelta(minutes=10)
CPU_LIMIT_S = 60
WALL_LIMIT_S = 300.0
TOO_LONG = "simulating the run takes more than {} s of computing"
EARLIER_RUNS = 8
LOOKED_AT = 40
STEPS_OF_A_RUN = 2000
REQUESTS_OF_A_RUN = 300

_predicting = threading.Lock()


class NoTime(Exception):
    """The machine is too busy for what is least urgent; later it may not be."""

    retry = True


def start_predicting() -> None:
    """Predicts what is due in a thread of its own, so that whoever calls need not wait. One such thread a process."""
    if due_runs(timezone.now()).exists():
        threading.Thread(target=_predict_all, name="predictions", daemon=True).start()


def _predict_all() -> None:
    if not _predicting.acquire(blocking=False):
        return
    try:
        while (run := due_runs(timezone.now()).first()) is not None:
            predict_run(run)
    except NoTime as error:
        log.warning("predictions wait: %s", error)
    except Exception:
        # The next beat of the schedule tries again; a thread has nobody to raise to.
        log.exception("measured runs could not be predicted")
    finally:
        _predicting.release()
        connections.close_all()


def due_runs(now: dt.datetime) -> QuerySet[Run]:
    """Measured runs with results and without a prediction, the oldest first; none while a measured node works, unless
    they have waited for long."""
    due = Run.objects.filter(
        state=RunState.SUCCEEDED,
        prediction__isnull=True,
        ended_at__gt=now - LOOKED_BACK,
        summary__isnull=False,
        final_attempt__report__isnull=False,
        final_attempt__node__kind=NodeKind.MEASURED,
        experiment__deleted_at=None,
    )
    if Attempt.objects.filter(state__in=ATTEMPT_LIVE, node__kind=NodeKind.MEASURED).exists():
        due = due.filter(ended_at__lt=now - PATIENCE)
    return due.select_related("final_attempt__node").order_by("ended_at", "pk")


def predict_run(run: Run) -> bool:
    """Predicts one run and keeps the answer. False where it had one by then. Raises NoTime."""
    try:
        if run.spec["engine"].get("kind", BUILTIN) != BUILTIN:
            prediction = {"why_not": "it was not run by the built-in engine, which the cost model is of"}
        else:
            prediction = with_bands(_ask(request_of(run)), run)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # of another version, or of a faulty node
        log.exception("run %s can't be predicted", run.pk)
        prediction = {"why_not": f"what is stored of the run can't be read: {type(error).__name__}: {error}"}
    return bool(Run.objects.filter(pk=run.pk, prediction__isnull=True).update(prediction=prediction))


def request_of(run: Run) -> dict[str, Any]:
    """What PROGRAM is asked: settings of the run, what is known of its node, and what its node did before it. Raises
    AttributeError, KeyError, TypeError or ValueError where what is stored is not what this version stores."""
    attempt = _final(run)
    num_blocks = _engine(attempt).get("num_blocks")
    if not num_blocks:
        raise ValueError("facts.engine.num_blocks: its engine did not say how many KV blocks it had")
    assert attempt.node is not None  # due_runs: of measured nodes alone
    earlier = earlier_runs(run)
    intakes = [intake for one in earlier if (intake := _intake(one))]
    return {
        "spec": run.spec,
        "facts": attempt.node.facts,
        "ceilings": attempt.node.ceilings,
        "num_blocks": num_blocks,
        "intake_s": min(intakes, default=0.0),
        "earlier": [
            {"shape": one.spec["model"]["shape"], "weights": one.spec["engine"]["weights"], "steps": _steps(one)}
            for one in earlier
        ],
    }


def earlier_runs(run: Run) -> list[Run]:
    """Valid runs of the same node and as many threads that had ended when this one began: those of its own model and
    weights first, then the latest."""
    latest = _before(run).select_related("final_attempt").order_by("-ended_at", "-pk")[:LOOKED_AT]
    return sorted(latest, key=lambda one: _unlike(one.spec, run.spec))[:EARLIER_RUNS]


def _before(run: Run) -> QuerySet[Run]:
    attempt = _final(run)
    return Run.objects.filter(
        state=RunState.SUCCEEDED,
        valid=True,
        ended_at__lte=run.started_at,
        final_attempt__node=attempt.node,
        final_attempt__report__facts__engine__threads=_engine(attempt).get("threads"),
    ).exclude(pk=run.pk)


def with_bands(prediction: dict[str, Any], run: Run) -> dict[str, Any]:
    """A calibrated prediction whose figures have the band of earlier ones of the node, where enough were made."""
    if prediction.get("state") != "calibrated":
        return prediction
    earlier = _before(run).filter(prediction__state="calibrated").order_by("-ended_at", "-pk")[:LOOKED_AT]
    told = [one for stored in earlier.only("prediction", "summary") if (one := prediction_of(stored)) is not None]
    figures = dict(prediction["metrics"])
    for name, figure in figures.items():
        beside = [one.metrics[name].residual for one in told if name in one.metrics]
        ratios = [1 + residual for residual in beside if residual is not None]
        if (band := next_ratio(ratios)) is not None:
            low, high = (figure["predicted"] * factor for factor in band)
            figures[name] = {**figure, "low": low, "high": high, "runs": len(ratios)}
    return {**prediction, "metrics": figures}


def _unlike(spec: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[bool, bool]:
    model = spec["model"]["sha256"] != other["model"]["sha256"]
    return model, spec["engine"]["weights"] != other["engine"]["weights"]


def _final(run: Run) -> Attempt:
    assert run.final_attempt is not None
    return run.final_attempt


def _engine(attempt: Attempt) -> dict[str, Any]:
    """What the engine said that it runs on."""
    engine: dict[str, Any] = ((attempt.report or {}).get("facts") or {}).get("engine") or {}
    return engine


def _steps(run: Run) -> list[Any]:
    rows = StepRecord.objects.filter(run_id=run.pk, attempt=_final(run).number).order_by("seq")
    return list(rows.values_list("data", flat=True)[:STEPS_OF_A_RUN])


def _intake(run: Run) -> float:
    rows = RequestRecord.objects.filter(run_id=run.pk, attempt=_final(run).number).order_by("seq")
    stored = rows.values_list("data", flat=True)[:REQUESTS_OF_A_RUN]
    return intake_of([RequestEvent.model_validate(data) for data in stored])


def _ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """PROGRAM's answer; why there is none, where it broke off or took too long. Raises NoTime."""
    command = [sys.executable, "-m", PROGRAM, "--cpu-limit-s", str(CPU_LIMIT_S)]
    try:
        ended = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=WALL_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NoTime(f"{PROGRAM} got too little of the machine within {WALL_LIMIT_S:.0f} s") from error
    if ended.returncode == -signal.SIGXCPU:
        return {"why_not": TOO_LONG.format(CPU_LIMIT_S)}
    if ended.returncode:
        log.error("%s ended with status %s: %s", PROGRAM, ended.returncode, ended.stderr[-2000:])
        if ended.returncode < 0:
            return {"why_not": f"the prediction was ended by {signal.Signals(-ended.returncode).name}"}
        words = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        return {"why_not": f"the prediction broke off: {words[:300]}"}
    answer: dict[str, Any] = json.loads(ended.stdout, parse_constant=_no_number)
    return answer


def _no_number(constant: str) -> NoReturn:
    """Of JSON that the database would not keep."""
    raise ValueError(f"{PROGRAM} answered {constant} where a number belongs")
