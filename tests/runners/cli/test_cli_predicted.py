"""A prediction at a terminal always says that it is modelled, and its error or that nobody knows it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from runners.cli.predicted import prediction_view

FIGURE = {"unit": "tok/s", "predicted": 100.0, "low": 90.0, "high": 105.0, "measured": 110.0, "residual": 0.1}


def printed(prediction: dict[str, Any] | None) -> str:
    output = io.StringIO()
    Console(file=output, width=160).print(prediction_view(prediction))
    return output.getvalue().replace("\u00a0", " ")


def predicted(state: str = "calibrated", **figure: Any) -> dict[str, Any]:
    metrics = {"output_throughput": {**FIGURE, **figure}}
    return {"state": state, "basis": "steps of 2 earlier runs", "why_not": None, "metrics": metrics}


def test_a_figure_has_its_band_and_its_residual() -> None:
    text = printed(predicted())
    for part in ("Modelled (calibrated)", "Output throughput", "100 tok/s", "90.0 tok/s – 105 tok/s", "110 tok/s",
                 "+10.0 %", "From steps of 2 earlier runs."):  # fmt: skip
        assert part in text


def test_a_figure_whose_error_nobody_knows_says_so() -> None:
    text = printed(predicted("uncalibrated", low=None, high=None, measured=None, residual=None))
    assert "Modelled (uncalibrated)" in text and "error not known" in text and "– " in text


@pytest.mark.parametrize(
    ("prediction", "told"),
    [
        (None, ""),
        ({"state": None, "basis": "", "why_not": "ceilings\u001b[31m unknown", "metrics": {}}, "No prediction"),
    ],
)
def test_a_run_without_a_prediction_says_why_or_nothing(prediction: dict[str, Any] | None, told: str) -> None:
    text = printed(prediction)
    assert text.startswith(told) and "\u001b" not in text and ("Modelled" not in text)
