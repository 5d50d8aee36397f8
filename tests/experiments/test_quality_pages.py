"""The quality of runs on their pages: figures with intervals, the reference's kind, the floor, what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from experiments.models import Experiment, Run
from experiments.quality import quality_of, trial_quality
from experiments.selectors import trials_with_runs
from runners.quality_figures import QualityFacts, share

pytestmark = pytest.mark.django_db(transaction=True)


def figure(value: float, n: int = 8) -> dict[str, Any]:
    return {"value": value, "low": value * 0.9, "high": value * 1.1, "n": n}


def text(ratio: float) -> dict[str, Any]:
    return {
        "perplexity": figure(20.3), "bits_per_byte": figure(1.08), "perplexity_ratio": figure(ratio),
        "kl_divergence": figure(0.0319), "top1_agreement": figure(0.885), "scored_tokens": 2048, "scored_bytes": 8219,
    }  # fmt: skip


def quality(ratio: float = 1.06, **more: Any) -> dict[str, Any]:
    task = {"asked": 40, "correct": 10, "accuracy": share(10, 40).model_dump()}
    found = {
        "reference": {"weights": "bf16", "label": "Q4_1", "types": {"Q4_1": 100}},
        "text": text(ratio),
        "rescaled": text(1.446),
        "tasks": {"multiple_choice": task},
        "method": {"windows": 8, "window_tokens": 512},
        **more,
    }
    return QualityFacts.model_validate(found).model_dump(mode="json")


@pytest.fixture
def scored(finished: Experiment) -> Experiment:
    """Every run with a quality, under a floor that the rescaled weights break."""
    for run in finished.runs.all():
        run.summary["quality"] = quality()
        run.spec["quality"] = {"floor": {"perplexity_ratio": 1.1}}
        run.save(update_fields=["summary", "spec"])
    return finished


def first_run(experiment: Experiment) -> Run:
    return experiment.runs.order_by("position")[0]


def test_figures_stand_with_their_intervals_beside_what_they_are_held_against(
    browser: Client, scored: Experiment
) -> None:
    pages = (f"/runs/{first_run(scored).pk}/", f"/experiments/{scored.pk}/", f"/compare/?experiment={scored.pk}")
    for page in pages:
        shown = browser.get(page)
        assert shown.status_code == 200, page
        told = shown.content.decode()
        assert "reference is Q4_1" in told and "which is Q4_1 already" in told, page
        assert "1.06" in told and "0.954 – 1.17" in told, page  # the ratio and its interval
        assert "off the grid 1.45" in told and "above the floor of 1.1" in told, page


def test_a_page_without_quality_has_no_such_panel(browser: Client, finished: Experiment) -> None:
    assert b'id="quality"' not in browser.get(f"/experiments/{finished.pk}/").content


def test_answers_of_a_trials_runs_are_counted_together_and_its_text_once(scored: Experiment) -> None:
    entries = trials_with_runs(scored.pk)
    rows = trial_quality(entries)
    assert len(rows) == len(entries)
    repeats = len(entries[0].runs)
    assert rows[0].tasks == (f"multiple choice {10 * repeats} of {40 * repeats}",)
    assert rows[0].cells["accuracy"].about == f"95 % interval over {40 * repeats} questions"
    assert rows[0].cells["perplexity"].about == "95 % interval over 8 windows of the text"


def test_what_could_not_be_measured_is_told_with_why(browser: Client, scored: Experiment) -> None:
    run = first_run(scored)
    run.summary["quality"] = QualityFacts(not_measured=("text: <b>no</b> words",)).model_dump(mode="json")
    run.save(update_fields=["summary"])
    told = browser.get(f"/runs/{run.pk}/").content.decode()
    assert "not measured: text: &lt;b&gt;no&lt;/b&gt; words" in told


def test_stored_quality_of_another_form_counts_as_none() -> None:
    assert quality_of(Run(summary={"quality": {"text": {"perplexity": "low"}}})) is None
    assert quality_of(Run(summary=None)) is None
