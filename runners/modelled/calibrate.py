"""Fit the cost model to published results: `python -m runners.modelled.calibrate --results FILE --out FILE`.

Prints and stores the errors of a cross-validation that leaves whole chip x model x precision families out, so that each
row is predicted by a fit that saw nothing of its family. Claims never count; rows faster than the floor of 100 %
efficiency are reported as errors of the data and left out of both.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runners.modelled.calibration_file import OWN_FILE, Calibration, ScopeError, scopes_of
from runners.modelled.cases import Case, CaseReader
from runners.modelled.facts import ChipTable
from runners.modelled.figures import fit_cases, log_ratios, predict_cases, replay_all
from runners.modelled.floor import DataError, find_data_error
from runners.modelled.model_shapes import ModelShapes
from runners.modelled.rows import CannotPredict, ResultsFileError, Row, counts_as_accuracy, read_rows

FOLDS = 5
BAND = (0.05, 0.95)


@dataclasses.dataclass(frozen=True)
class Reading:
    """Rows as cases, and what was left out and why."""

    cases: list[Case]
    data_errors: list[DataError]
    unreadable: dict[str, str]
    claims: int


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


def cross_validate(cases: Sequence[Case], full: Calibration, folds: int = FOLDS) -> dict[str, float]:
    """Each row's figure under a fit without its family. Families are dealt out by a hash of their name, so that the
    same rows always fall together."""
    fold_of = {case.row_id: _deal(case.family_key, folds) for case in cases}
    queued = [case for case in cases if case.queues]
    waves = dict(zip([case.row_id for case in queued], replay_all(queued, full.steps), strict=True))
    predicted: dict[str, float] = {}
    for fold in range(folds):
        seen = [case for case in cases if fold_of[case.row_id] != fold]
        unseen = [case for case in cases if fold_of[case.row_id] == fold]
        predicted |= predict_cases(unseen, fit_cases(seen, waves))
    return predicted


def _deal(name: str, folds: int) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % folds


def errors_by_scope(cases: Sequence[Case], ratios: Mapping[str, float]) -> dict[str, ScopeError]:
    """The errors of every scope that any row is in."""
    grouped: dict[str, list[float]] = {}
    for case in cases:
        for scope in scopes_of(case.quantity, case.engine, case.chip.family, case.precision):
            grouped.setdefault(scope, []).append(ratios[case.row_id])
    return {scope: _error(scope, np.array(grouped[scope])) for scope in sorted(grouped)}


def _error(scope: str, ratios: np.ndarray[Any, np.dtype[np.float64]]) -> ScopeError:
    off = np.abs(np.exp(ratios) - 1)
    low, high = np.quantile(-ratios, BAND)
    figures = (np.median(off), np.quantile(off, 0.9), np.median(ratios), low, high)
    return ScopeError(scope, len(ratios), *(round(float(value), 4) for value in figures))


def calibrate(rows: Sequence[Row], reader: CaseReader, provenance: Mapping[str, Any]) -> tuple[Calibration, Reading]:
    """The fit on all rows, with the errors of its cross-validation."""
    reading = read_cases(rows, reader)
    full = fit_cases(reading.cases)
    errors = errors_by_scope(reading.cases, log_ratios(reading.cases, cross_validate(reading.cases, full)))
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
    return dataclasses.replace(full, errors=errors, provenance=told), reading


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
    parser.add_argument("--out", type=Path, default=OWN_FILE)
    options = parser.parse_args(arguments)
    reader = CaseReader(ChipTable.load(options.chips), ModelShapes.load(options.models))
    try:
        rows = read_rows(options.results)
    except ResultsFileError as error:
        parser.error(str(error))
    digest = hashlib.sha256(options.results.read_bytes()).hexdigest()
    calibration, reading = calibrate(rows, reader, {"results": options.results.name, "sha256": digest})
    options.out.write_text(calibration.to_json() + "\n", encoding="utf-8")
    print(format_errors(calibration.errors))
    print(json.dumps({"fitted": len(reading.cases), "data_errors": len(reading.data_errors)}))
    for wrong in reading.data_errors:
        print(wrong)


if __name__ == "__main__":
    main()
