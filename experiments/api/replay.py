"""REST for running a run again exactly as it was."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router, Status

from experiments import selectors
from experiments.api.auth import person
from experiments.api.present import experiment_item
from experiments.api.schemas import STATE_ERRORS, ExperimentItem
from experiments.errors import BadParameter
from experiments.services.replaying import ASPECTS, replay_run
from labsite.error_body import ErrorBody

router = Router(tags=["runs"])

Allowed = Annotated[
    str,
    Query(pattern=r"^[a-z_,]{0,60}$", description=f"What may differ: of {', '.join(ASPECTS)}, by commas."),
]


@router.post(
    "/runs/{int:run_id}/replay",
    response={201: ExperimentItem, STATE_ERRORS: ErrorBody},
    summary="Run it again exactly",
    description="The same frozen spec and seed, on the same node or one like it, as an experiment of one run. Refused "
    "(409) with what differs where code, weights or chip are not what they were; `allow` names what may differ.",
)
def replay(request: HttpRequest, run_id: int, allow: Allowed = "") -> Status[ExperimentItem]:
    user = person(request)
    experiment = replay_run(user, selectors.get_run(user, run_id), _aspects(allow))
    return Status(201, experiment_item(experiment, selectors.count_runs([experiment.pk])[experiment.pk]))


def _aspects(text: str) -> set[str]:
    """Raises BadParameter where one is none."""
    named = {one for one in text.split(",") if one}
    unknown = named - set(ASPECTS)
    if unknown:
        raise BadParameter("allow", f"{min(unknown)!r} is nothing that could differ", list(ASPECTS))
    return named
