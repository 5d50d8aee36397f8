"""Predict published results: `python -m runners.modelled.predict --rows FILE --json OUT`.

Each row is predicted in its own unit and by its own metric's definition. `low` to `high` is the band that holds 90 % of
measured figures, from the errors of the calibration's cross-validation; a row that can't be predicted has null, and
`why_not` says why.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from runners.modelled.calibration_file import OWN_FILE, Calibration
from runners.modelled.cases import Case, CaseReader
from runners.modelled.facts import ChipTable
from runners.modelled.figures import predict_cases
from runners.modelled.model_shapes import ModelShapes
from runners.modelled.rows import CannotPredict, Row, read_rows


class Prediction(TypedDict):
    id: str
    predicted: float | None
    low: float | None
    high: float | None
    why_not: str | None


def predict_rows(rows: Sequence[Row], reader: CaseReader, calibration: Calibration) -> list[Prediction]:
    """One prediction per row, in the rows' order; rows of one id are each predicted by themselves."""
    cases: dict[int, Case] = {}
    reasons: dict[int, str] = {}
    for place, row in enumerate(rows):
        try:
            cases[place] = reader.read({**row, "id": str(place), "value": None})
        except CannotPredict as error:
            reasons[place] = str(error)
    figures = predict_cases(list(cases.values()), calibration)
    return [
        _prediction(row["id"], cases[place], figures[str(place)], calibration)
        if place in cases
        else _null(row["id"], reasons[place])
        for place, row in enumerate(rows)
    ]


def _null(row_id: str, reason: str) -> Prediction:
    return Prediction(id=row_id, predicted=None, low=None, high=None, why_not=reason)


def _prediction(row_id: str, case: Case, value: float, calibration: Calibration) -> Prediction:
    if not math.isfinite(value):
        return _null(row_id, f"{case.chip.chip_id}: its record states no power")
    error = calibration.error_of(case.quantity, case.engine, case.chip.family, case.precision)
    low, high = (value * math.exp(error.low), value * math.exp(error.high)) if error else (None, None)
    return Prediction(id=row_id, predicted=value, low=low, high=high, why_not=None)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="runners.modelled.predict", description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="JSON list of results; their values are not looked at")
    parser.add_argument("--json", type=Path, required=True, help="where to write the predictions")
    parser.add_argument("--chips", default="catalog", help="catalog, or a JSON list of chip records")
    parser.add_argument("--models", default=None, help="JSON list of model shapes beside the project's own")
    parser.add_argument("--coefficients", type=Path, default=OWN_FILE)
    options = parser.parse_args(arguments)
    try:
        reader = CaseReader(ChipTable.load(options.chips), ModelShapes.load(options.models))
        rows, calibration = read_rows(options.rows), Calibration.load(options.coefficients)
    except (OSError, ValueError) as error:  # Each names its file and what is wrong in it.
        parser.error(str(error))
    predictions = predict_rows(rows, reader, calibration)
    options.json.write_text(json.dumps(predictions, indent=1) + "\n", encoding="utf-8")
    missing = sum(item["predicted"] is None for item in predictions)
    print(f"{len(predictions) - missing} of {len(predictions)} rows predicted")


if __name__ == "__main__":
    main()
