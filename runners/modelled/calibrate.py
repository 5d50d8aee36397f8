"""Fit the cost model to published results: `python -m runners.modelled.calibrate --results FILE --out FILE`.

Prints and stores the errors of a cross-validation that leaves whole chip x model x precision families out, so that each
row is predicted by a fit that saw nothing of its family. Claims never count; rows faster than the floor of 100 %
efficiency are reported as errors of the data and left out of both. Each row's own error goes to a table beside OUT.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runners.modelled.bands import coverage_by_quantity, errors_by_scope, fold_of, format_coverage
from runners.modelled.calibration_file import OWN_FILE, Calibration, ScopeError
from runners.modelled.cases import Case, CaseReader
from runners.modelled.facts import ChipTable
from runners.modelled.figures import WavesByRow, fit_cases, log_ratios, predict_cases, run_first_tokens
from runners.modelled.floor import DataError, find_data_error
from runners.modelled.model_shapes import ModelShapes
from runners.modelled.residuals import OWN_FILE as RESIDUALS_FILE
from runners.modelled.residuals import Residual, residuals_of, write_residuals
from runners.modelled.rows import CannotPredict, Row, counts_as_accuracy, read_rows

FOLDS = 5
RESIDUALS_NAME = RESIDUALS_FILE.name


class NothingToFit(ValueError):
    """No row has a figure that may be fitted; trying again would change nothing."""

    retry = False


@dataclasses.dataclass(frozen=True)
class Reading:
    """Rows as cases, and what was left out and why."""

    cases: list[Case]
    data_errors: list[DataError]
    unreadable: dict[str, str]
    claims: int


@dataclasses.dataclass(frozen=True)
class Result:
    calibration: Calibration
    residuals: list[Residual]
    reading: Reading


def read_cases(rows: Sequence[Row], reader: CaseReader) -> Reading:
    """Sorts rows into those to fit and those to leave out."""
    cases, errors, unreadable = [], [], {}
    for row in rows:
        if not counts_as_accuracy(row):
            continue
        try:
            case = reader.read(row)
        except CannotPredict as error:
            unreadable[row["id"]] = str(error)
            continue
        wrong = find_data_error(case)
        if wrong is None:
            cases.append(case)
        else:
            errors.append(wrong)
    return Reading(cases, errors, unreadable, sum(not counts_as_accuracy(row) for row in rows))


def cross_validate(cases: Sequence[Case], waves: WavesByRow, folds: int = FOLDS) -> list[Residual]:
    """How far each row's figure is off under a fit without its family, and of first tokens also that of a modelled run.
    `waves` are those of the fit on all."""
    predicted: dict[str, float] = {}
    of_runs: dict[str, float] = {}
    for fold in range(folds):
        seen = [case for case in cases if fold_of(case.family_key, folds) != fold]
        unseen = [case for case in cases if fold_of(case.family_key, folds) == fold]
        calibration, _ = fit_cases(seen, waves)
        predicted |= predict_cases(unseen, calibration)
        of_runs |= run_first_tokens(unseen, calibration)
    found = residuals_of(cases, log_ratios(cases, predicted))
    return found + residuals_of(cases, log_ratios(cases, of_runs), "run_ttft")


def calibrate(rows: Sequence[Row], reader: CaseReader, provenance: Mapping[str, Any]) -> Result:
    """The fit on all rows, with the errors of its cross-validation. Raises NothingToFit."""
    reading = read_cases(rows, reader)
    if not reading.cases:
        raise NothingToFit(f"results: none of {len(rows)} rows can be fitted; allowed: at least one that is no claim")
    full, waves = fit_cases(reading.cases)
    residuals = cross_validate(reading.cases, waves)
    told = {
        **provenance,
        "rows": len(rows),
        "chips": sorted({case.chip.chip_id for case in reading.cases}),
        "fitted": len(reading.cases),
        "claims_left_out": reading.claims,
        "data_errors": [str(error) for error in reading.data_errors],
        "unreadable": reading.unreadable,
        "validation": f"{FOLDS} folds of whole chip x model x precision families",
    }
    errors, coverage = errors_by_scope(residuals), coverage_by_quantity(residuals, FOLDS)
    return Result(dataclasses.replace(full, errors=errors, coverage=coverage, provenance=told), residuals, reading)


def format_errors(errors: Mapping[str, ScopeError]) -> str:
    """A table of scopes with enough rows to speak of."""
    lines = [f"{'scope':<58}{'n':>5}{'median':>9}{'p90':>9}{'bias':>9}"]
    for error in errors.values():
        if error.n >= 4:
            lines.append(f"{error.scope:<58}{error.n:>5}{error.median:>9.1%}{error.p90:>9.1%}{error.bias:>+9.1%}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="runners.modelled.calibrate", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="JSON list of published results")
    parser.add_argument("--chips", default="catalog", help="catalog, or a JSON list of chip records")
    parser.add_argument("--models", default=None, help="JSON list of model shapes beside the project's own")
    parser.add_argument("--out", type=Path, default=OWN_FILE, help="coefficients; residuals are written beside them")
    options = parser.parse_args(arguments)
    try:
        reader = CaseReader(ChipTable.load(options.chips), ModelShapes.load(options.models))
        rows = read_rows(options.results)
        digest = hashlib.sha256(options.results.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:  # Each names its file and what is wrong in it.
        parser.error(str(error))
    try:
        result = calibrate(rows, reader, {"results": options.results.name, "sha256": digest})
    except NothingToFit as error:
        parser.error(str(error))
    reading = result.reading
    options.out.write_text(result.calibration.to_json() + "\n", encoding="utf-8")
    write_residuals(options.out.with_name(RESIDUALS_NAME), result.residuals)
    print(format_errors(result.calibration.errors))
    print(*format_coverage(result.calibration.coverage), sep="\n")
    print(json.dumps({"fitted": len(reading.cases), "data_errors": len(reading.data_errors)}))
    for wrong in reading.data_errors:
        print(wrong)


if __name__ == "__main__":
    main()
