"""One run: live while it goes on, then its figures, its validity and its evidence."""

from __future__ import annotations

import json
import math
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from experiments.analysis.model_error import UNCALIBRATED
from experiments.bottlenecks import bottleneck_of, next_experiment
from experiments.figures.engines import kv_figure, lanes_figure
from experiments.figures.phases import phase_figure
from experiments.figures.run import live_figures, timeline_figure
from experiments.figures.steps import steps_figure
from experiments.figures.ttft import ttft_bar, ttft_figure
from experiments.imported import imported_figures
from experiments.models import RUN_ENDED, Attempt, Run
from experiments.pages.access import person, run_or_404
from experiments.predictions import awaits_prediction, prediction_of
from experiments.quality import quality_panel, run_quality
from experiments.run_parts import part_tables
from experiments.selectors import RunOnNode, attempts_of, latest_sample, records_after, shown_attempt
from experiments.services.cancelling import cancel_run
from experiments.steps import PLACES, latest_engines, shown_steps
from experiments.system_facts import engine_names, system_of
from experiments.waiting import explain_waiting
from labsite.accounts.models import Role
from labsite.accounts.permissions import AccessDenied, may_control, role_in
from runners.display import NAMES, about_of, name_of
from runners.validity import THRESHOLDS

TIMELINE_REQUESTS = 400
FEWEST_PLACES = 40
PERCENTILE_KEYS = ("p50", "p90", "p95", "p99")
CHARTS = (
    ("throughput", "Throughput", ""),
    ("ttft", "TTFT", ""),
    ("itl", "ITL", ""),
    ("queue", "Queue", ""),
    ("kv", "KV use", ""),
    ("owners", "KV blocks by owner", "one colour a request"),
)
SYSTEM_FIGURES = (
    "interconnect_tax",
    "mean_power",
    "energy_per_output_token",
    "energy_per_request",
    "energy_per_useful_answer",
    "output_throughput_per_chip",
    "output_throughput_per_kw",
    "output_tokens_per_usd",
)
LEAD = ("output_throughput", "ttft", "tpot", "e2el", "interactivity", "request_throughput")


@login_required
def show_run(request: HttpRequest, run_id: int) -> HttpResponse:
    run = run_or_404(request, run_id)
    attempts = attempts_of(run.pk)
    attempt = shown_attempt(run, attempts)
    modelled = _is_modelled(run, attempt)
    context = {
        "section": "experiments",
        "run": run,
        "attempts": attempts,
        "attempt": attempt,
        "modelled": modelled,
        "speculative": _speculative(attempt),
        "engines": _engines(run, attempt),
        "engine_facts": _facts(attempt).get("engine") or {},
        "live": live_figures(modelled=modelled),
        "charts": CHARTS,
        "ended": run.state in RUN_ENDED,
        "charted": run.state not in RUN_ENDED or (attempt and latest_sample(run.pk, attempt.number)),
        "expected": run.spec["workload"].get("num_requests"),
        "spec_text": json.dumps(run.spec, indent=2, ensure_ascii=False),
        "facts_text": json.dumps((attempt.report or {}).get("facts", {}), indent=2, ensure_ascii=False)
        if attempt and attempt.report
        else "",
        **_state(request, run, attempt),
        **_results(request, run, attempt),
    }
    return render(request, "experiments/run.html", context)


def _calibration(attempt: Attempt | None) -> str:
    """What the run reported of its cost model; until then, that nothing is known of its error."""
    return str(_facts(attempt).get("calibration") or UNCALIBRATED)


def _speculative(attempt: Attempt | None) -> dict[str, Any] | None:
    """The stand-ins that a run was modelled with, and the band that its figures have for that."""
    found = _facts(attempt).get("speculative")
    return found if isinstance(found, dict) else None


def _facts(attempt: Attempt | None) -> dict[str, Any]:
    """What the attempt's node reported that it ran on; empty until it has."""
    return (attempt.report or {}).get("facts", {}) if attempt else {}


def _is_modelled(run: Run, attempt: Attempt | None) -> bool:
    return bool(RunOnNode(run, attempt).modelled)


def _engines(run: Run, attempt: Attempt | None) -> list[str]:
    """Its engines by name, where it has several."""
    if attempt is None:
        return []
    return list(engine_names(_facts(attempt))) or latest_engines(run.pk, attempt.number)


@login_required
def run_state(request: HttpRequest, run_id: int) -> HttpResponse:
    run = run_or_404(request, run_id)
    attempt = shown_attempt(run, attempts_of(run.pk))
    return render(request, "experiments/_run_state.html", {"run": run, **_state(request, run, attempt)})


@login_required
def run_results(request: HttpRequest, run_id: int) -> HttpResponse:
    """What the server computes once the run has ended: figures, percentiles, validity, timeline."""
    run = run_or_404(request, run_id)
    attempt = shown_attempt(run, attempts_of(run.pk))
    return render(request, "experiments/_run_results.html", {"run": run, **_results(request, run, attempt)})


@login_required
def run_prediction(request: HttpRequest, run_id: int) -> HttpResponse:
    """What the cost model says of a measured run; asked again until it has been computed."""
    run = run_or_404(request, run_id)
    return render(request, "experiments/_prediction.html", {"run": run, "prediction": prediction_of(run)})


def _state(request: HttpRequest, run: Run, attempt: Attempt | None) -> dict[str, Any]:
    ended = run.state in RUN_ENDED
    allowed = not ended and may_control(person(request), run.experiment.project, run.experiment.owner_id)
    return {
        "ended": ended,
        "attempt": attempt,
        "waiting": explain_waiting([run]).get(run.pk),
        "may_cancel": allowed and run.cancel_requested_at is None,
    }


def _results(request: HttpRequest, run: Run, attempt: Attempt | None) -> dict[str, Any]:
    summary = run.summary or {}
    stored = summary.get("metrics", {})
    system = system_of(_facts(attempt), run.spec.get("usd_per_hour"))
    metrics = {name: stored[name] for name in NAMES if name in stored}
    ended = attempt is not None and run.state in RUN_ENDED
    records = records_after("requests", run.pk, attempt.number, 0, TIMELINE_REQUESTS) if attempt and ended else []
    drawn = [record for record in records[:TIMELINE_REQUESTS] if record.get("finished_s") is not None]
    return {
        "summary": summary,
        "replayed": ((attempt.report or {}).get("client") or {}).get("trace") if attempt else None,
        "modelled": _is_modelled(run, attempt),
        **_held_up(request, run, attempt),
        **quality_panel([row] if (row := run_quality(run)) else [], of_trials=False),
        "system": system,
        "calibration": _calibration(attempt),
        "phases": phase_figure(system.phases) if system and system.phases else None,
        "system_figures": [
            {"label": name_of(name), "about": about_of(name), **stored[name]}
            for name in SYSTEM_FIGURES
            if stored.get(name) and stored[name]["value"] is not None
        ],
        **imported_figures(run),
        "prediction": prediction_of(run),
        "awaits_prediction": run.imported is None
        and awaits_prediction(run, modelled=attempt is None or attempt.is_modelled),
        "part_tables": part_tables(summary, run.spec["workload"]),
        "thresholds": THRESHOLDS,
        "percentile_keys": PERCENTILE_KEYS,
        "lead": [{"name": name, **metrics[name]} for name in LEAD if name in metrics],
        "latencies": [
            {"label": name_of(name), **metric, "scale": _latency_scale(metric)}
            for name, metric in metrics.items()
            if metric["percentiles"]
        ],
        "figures": [
            {"label": name_of(name), **metric} for name, metric in metrics.items() if not metric["percentiles"]
        ],
        "timeline": timeline_figure(drawn) if drawn else None,
        "timeline_cut": len(records) > TIMELINE_REQUESTS,
        "timeline_limit": TIMELINE_REQUESTS,
    }


def _held_up(request: HttpRequest, run: Run, attempt: Attempt | None) -> dict[str, Any]:
    """What held it up with what to try next, and the parts of its TTFT."""
    modelled = _is_modelled(run, attempt)
    bar = ttft_bar("TTFT", modelled, [(run.summary or {}).get("ttft_parts")])
    role = role_in(person(request), run.experiment.project)
    return {
        "bottleneck": bottleneck_of(run),
        "next_experiment": next_experiment(run, modelled=modelled),
        "may_try": role is not None and role >= Role.RESEARCHER,
        "ttft_bar": bar,
        "ttft_figure": ttft_figure([bar]) if bar else None,
    }


@login_required
def run_steps(request: HttpRequest, run_id: int) -> HttpResponse:
    """The step timeline of the span `from … to` of the run's clock, in s, as the page's script draws it: of the engine
    asked for, or of several engines a lane for each; then the KV blocks of each too."""
    run = run_or_404(request, run_id)
    attempt = shown_attempt(run, attempts_of(run.pk))
    low_s, high_s = (_seconds(request, name, whole) for name, whole in (("from", -math.inf), ("to", math.inf)))
    modelled = _is_modelled(run, attempt)
    engines = _engines(run, attempt)
    engine = request.GET.get("engine", "") if request.GET.get("engine") in engines else None
    places = max(PLACES // max(len(engines), 1), FEWEST_PLACES)
    every = shown_steps(run.pk, attempt.number, low_s, high_s, places) if attempt else []
    shown = shown_steps(run.pk, attempt.number, low_s, high_s, engine=engine) if attempt and engine else every
    lanes = bool(engines) and not engine
    answer = {
        "figure": lanes_figure(shown) if lanes else steps_figure(shown, modelled=modelled),
        "kv": kv_figure(every, modelled=modelled) if engines else None,
        "shown": len(shown),
        "steps": sum(one.steps for one in shown),
    }
    return JsonResponse(answer)


def _seconds(request: HttpRequest, name: str, default: float) -> float:
    """A number of the address; anything else counts as not given."""
    try:
        value = float(request.GET.get(name, ""))
    except ValueError:
        return default
    return default if math.isnan(value) else value


def _latency_scale(metric: dict[str, Any]) -> float:
    return max((point["value"] for point in metric["percentiles"].values()), default=0.0)


@login_required
@require_POST
def cancel(request: HttpRequest, run_id: int) -> HttpResponse:
    run = run_or_404(request, run_id)
    try:
        cancel_run(person(request), run)
    except AccessDenied as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "The run is being cancelled.")
    return redirect("run", run.pk)
