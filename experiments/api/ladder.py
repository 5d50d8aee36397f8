"""REST for ladders: what each technique gains over all before it, and what they gain together."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from experiments import selectors
from experiments.analysis.compare import COMPARED
from experiments.analysis.waterfall import Change, Rung, Waterfall
from experiments.api.auth import person
from experiments.api.schemas import READ_ERRORS
from experiments.errors import BadParameter, NotALadder
from experiments.ladders import is_ladder, ladders_of
from labsite.error_body import ErrorBody

router = Router(tags=["compare"])


class GainOut(Schema):
    """A difference between two trials. What can't be known is null."""

    difference: float
    relative: float | None = Field(description="As a share of the lower rung's mean.")
    low: float | None = Field(description="Of the 95 % interval; of modelled trials of the calibration's 90 % band.")
    high: float | None
    n: int
    method: str
    noise_floor: float | None = Field(description="Relative: what equal settings differ by 95 % of the time at most.")
    noise_source: str | None
    is_difference: bool
    verdict: str


class RungOut(Schema):
    trial: int
    label: str
    mean: float | None = Field(description="Over its valid runs.")
    n: int
    modelled: bool
    gain: GainOut | None = Field(description="Over the rung below.")


class WaterfallOut(Schema):
    settings: dict[str, Any] = Field(description="The combination of the matrix that this ladder stands on.")
    rungs: list[RungOut] = Field(description="The foot first.")
    total: GainOut | None = Field(description="The last rung over the first, with an interval of its own.")


class LadderOut(Schema):
    experiment: int
    metric: str
    unit: str
    more_is_better: bool | None
    ladders: list[WaterfallOut]


@router.get(
    "/experiments/{int:experiment_id}/ladder",
    response={200: LadderOut, READ_ERRORS | {409}: ErrorBody},
    summary="What each step of a ladder gains",
    description="For experiments whose design is a ladder; refused (409) of others.",
)
def ladder(
    request: HttpRequest,
    experiment_id: int,
    metric: Annotated[str, Query(pattern=r"^[a-z0-9_]+$", max_length=60)] = "output_throughput",
) -> LadderOut:
    experiment = selectors.get_experiment(person(request), experiment_id)
    if metric not in COMPARED:
        raise BadParameter("metric", f"no figure is named {metric}", list(COMPARED))
    if not is_ladder(experiment.spec):
        raise NotALadder(experiment_id)
    unit, more_is_better = COMPARED[metric]
    return LadderOut(
        experiment=experiment.pk,
        metric=metric,
        unit=unit,
        more_is_better=more_is_better,
        ladders=[_waterfall_out(one.settings, one.waterfall(metric)) for one in ladders_of(experiment)],
    )


def _waterfall_out(settings: dict[str, Any], found: Waterfall) -> WaterfallOut:
    rungs = [_rung_out(rung) for rung in found.rungs]
    return WaterfallOut(settings=settings, rungs=rungs, total=_gain_out(found.total, found.total_verdict))


def _rung_out(rung: Rung) -> RungOut:
    return RungOut(
        trial=rung.trial,
        label=rung.label,
        mean=rung.mean,
        n=rung.n,
        modelled=rung.modelled,
        gain=_gain_out(rung.gain, rung.verdict),
    )


def _gain_out(gain: Change | None, verdict: str) -> GainOut | None:
    return None if gain is None else GainOut(verdict=verdict, **{key: gain[key] for key in GAIN_KEYS})


GAIN_KEYS = tuple(name for name in GainOut.model_fields if name != "verdict")
