"""How far each published result was off in the cross-validation: what errors and bands are made from, kept as a table.

With it anyone can count again how often a band holds, without the results themselves and without a fit.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import cast

from runners.modelled.cases import Case
from runners.modelled.rows import Quantity

OWN_FILE = Path(__file__).parent / "calibration" / "residuals.csv"


class ResidualsError(ValueError):
    """The file is no table of residuals; trying again would change nothing."""

    retry = False


@dataclass(frozen=True, slots=True)
class Residual:
    """`ratio` is ln(predicted / measured) under a fit that had not seen the row's `group`: chip x model x precision."""

    row_id: str
    quantity: Quantity
    engine: str
    family: str
    precision: str
    group: str
    ratio: float


def residuals_of(
    cases: Sequence[Case], ratios: Mapping[str, float], quantity: Quantity | None = None
) -> list[Residual]:
    """Of the cases that `ratios` has; under another `quantity` than their own where one is given."""
    return [
        Residual(case.row_id, quantity or case.quantity, case.engine, case.chip.family, case.precision,
                 case.family_key, round(ratios[case.row_id], 4))
        for case in cases
        if case.row_id in ratios
    ]  # fmt: skip


def write_residuals(path: Path, residuals: Iterable[Residual]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, [item.name for item in fields(Residual)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(residual) for residual in residuals)


def read_residuals(path: Path = OWN_FILE) -> list[Residual]:
    """Raises ResidualsError that names the file and the line."""
    found = []
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                names = (row["row_id"], cast(Quantity, row["quantity"]), row["engine"], row["family"])
                found.append(Residual(*names, row["precision"], row["group"], float(row["ratio"])))
            except (KeyError, TypeError, ValueError) as error:
                raise ResidualsError(f"{path.name}: line {number} is no residual: {error!r}") from error
    return found
