"""The `quality` of a document: what is taken, and how a fault is told."""

from __future__ import annotations

from typing import Any

import pytest
from documents import SMALLEST

from runners.document import SpecError, validate_document
from runners.spec import ExperimentSpec


def spec_of(quality: Any) -> ExperimentSpec:
    return validate_document(SMALLEST | {"quality": quality})


def fault_of(quality: Any) -> tuple[str, Any]:
    with pytest.raises(SpecError) as caught:
        spec_of(quality)
    (error,) = caught.value.errors
    return error.field, error.allowed


def test_an_empty_quality_scores_the_shipped_text_and_has_no_floor() -> None:
    quality = spec_of({}).quality
    assert quality is not None
    assert quality.text == "shipped" and not quality.tasks and not quality.floor.bounds()


def test_a_document_without_it_asks_for_none() -> None:
    assert validate_document(SMALLEST).quality is None


@pytest.mark.parametrize(
    ("quality", "field"),
    [
        ({"text": "mine"}, "quality.text"),
        ({"tasks": ["riddles"]}, "quality.tasks.0"),
        ({"tasks": ["arithmetic", "arithmetic"]}, "quality.tasks"),
        ({"text": None}, "quality.text"),
        ({"floor": {"perplexity_ratio": 0.9}}, "quality.floor.perplexity_ratio"),
        ({"floor": {"accuracy": 0.5}}, "quality.floor.accuracy"),
        ({"text": None, "tasks": ["arithmetic"], "floor": {"kl_divergence": 0.1}}, "quality.floor.kl_divergence"),
        ({"num_windows": 1}, "quality.num_windows"),
        ({"reference": {"weights": "int8"}}, "quality.reference.weights"),
        ({"bleu": True}, "quality.bleu"),
    ],
)
def test_a_fault_names_its_field_and_what_is_allowed(quality: Any, field: str) -> None:
    found, allowed = fault_of(quality)
    assert found == field and allowed
