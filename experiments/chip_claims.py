"""A chip's claims, each beside what the cost model says of it. A claim without a stated test is left alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from experiments.chip_facts import prefixed
from runners.chips import ChipRecord, Claim
from runners.display import digits
from runners.modelled.calibration_file import Calibration, own_calibration
from runners.modelled.claims import Verdict, judge
from runners.modelled.model_shapes import ModelShapes

LARGE_UNITS = {"bytes": "B", "bytes/s": "B/s", "parameters": "\u00a0parameters", "USD": "$"}


@dataclass(frozen=True)
class JudgedClaim:
    """`figure` is the claim's, as shown; `verdict` is None where the claim states nothing that could be modelled."""

    claim: Claim
    figure: str
    verdict: Verdict | None

    @property
    def modelled(self) -> str:
        """The model's own figure with its band, and the most that physics allows."""
        found = self.verdict
        if found is None or found.modelled is None or found.low is None or found.high is None or found.most is None:
            return ""
        band = f"{digits(found.modelled)} ({digits(found.low)} – {digits(found.high)})"
        return f"modelled {band}, at most {digits(found.most)}\u00a0{self.claim.unit}"


def claims_of(record: ChipRecord) -> list[JudgedClaim]:
    shapes, calibration = _given()
    return [
        JudgedClaim(claim, _claimed(claim), judge(claim, record, shapes, calibration) if claim.test else None)
        for claim in record.claims
    ]


@cache
def _given() -> tuple[ModelShapes, Calibration]:
    """What every judgement needs: read once in a process, as files of the installed version."""
    return ModelShapes.load(), own_calibration()


def _claimed(claim: Claim) -> str:
    if claim.figure is None:
        return "–"
    if claim.unit in LARGE_UNITS:
        return prefixed(claim.figure, LARGE_UNITS[claim.unit])
    return f"{digits(claim.figure)}\u00a0{claim.unit}".strip()
