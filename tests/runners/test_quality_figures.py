"""Figures of a run's quality as they are read: intervals of shares, the floor, and reports that are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.events import Report
from runners.quality_figures import (
    Figure,
    QualityFacts,
    TaskQuality,
    floor_breaches,
    quality_figures,
    read_quality,
    share,
)
from runners.spec import FloorSpec


def figure(value: float) -> dict[str, Any]:
    return {"value": value, "low": value * 0.9, "high": value * 1.1, "n": 8}


def text(ratio: float, kl: float = 0.02, top1: float = 0.9) -> dict[str, Any]:
    return {
        "perplexity": figure(20.0), "bits_per_byte": figure(1.0), "perplexity_ratio": figure(ratio),
        "kl_divergence": figure(kl), "top1_agreement": figure(top1), "scored_tokens": 2048, "scored_bytes": 8192,
    }  # fmt: skip


def facts(**parts: Any) -> QualityFacts:
    return QualityFacts.model_validate(parts)


def test_wilsons_interval_of_7_of_10_is_the_one_worked_out_by_hand() -> None:
    # (0.7 + z²/20) / (1 + z²/10) ± z / (1 + z²/10) · √(0.7 · 0.3 / 10 + z²/400) with z² = 3.8414588
    found = share(7, 10)
    assert (found.low, found.high) == (pytest.approx(0.396778, abs=1e-6), pytest.approx(0.892209, abs=1e-6))


@given(st.integers(1, 5000), st.data())
def test_a_shares_interval_holds_it_and_stays_a_share(of: int, data: st.DataObject) -> None:
    found = share(data.draw(st.integers(0, of)), of)
    assert found.low is not None and found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1 and found.low < found.high


def test_accuracy_counts_the_questions_of_all_tasks_together() -> None:
    tasks = {
        "arithmetic": TaskQuality(asked=30, correct=15, accuracy=share(15, 30)),
        "json_schema": TaskQuality(asked=10, correct=1, accuracy=share(1, 10)),
    }
    found, unit = quality_figures(QualityFacts(tasks=tasks))["accuracy"]
    assert (found.value, found.n, unit) == (0.4, 40, "share")


def test_a_floor_is_broken_from_above_by_perplexity_and_from_below_by_agreement() -> None:
    floor = FloorSpec(perplexity_ratio=1.05, kl_divergence=0.1, top1_agreement=0.95)
    broken = {breach.name: breach.bound for breach in floor_breaches(facts(text=text(1.06)), floor)}
    assert broken == {"perplexity_ratio": 1.05, "top1_agreement": 0.95}


def test_a_figure_at_its_bound_keeps_the_floor() -> None:
    assert not list(floor_breaches(facts(text=text(1.05)), FloorSpec(perplexity_ratio=1.05)))


def test_weights_off_their_grid_are_held_to_the_same_floor() -> None:
    found = list(floor_breaches(facts(text=text(1.02), rescaled=text(1.4)), FloorSpec(perplexity_ratio=1.1)))
    (breach,) = found
    assert breach.name == "perplexity_ratio_rescaled" and "off their grid" in breach.message
    assert "above the floor of 1.1" in breach.message and "95 % interval" in breach.message


@pytest.mark.parametrize(
    "told", [None, "good", [], {"text": {"perplexity": "low"}}, {"tasks": {"x": {"asked": -1}}}, {"cached": "perhaps"}]
)
def test_what_is_no_report_of_quality_counts_as_none(told: Any) -> None:
    assert read_quality(Report(outcome="succeeded", facts={"quality": told})) is None


def test_a_figure_that_is_no_number_is_no_figure() -> None:
    with pytest.raises(ValueError, match="finite"):
        Figure(value=float("nan"), n=1)
