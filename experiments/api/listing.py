"""Lists of experiments and runs: what can be asked of them, and the page that answers.

The queries are the parameters of the REST lists; the pages ask by the same ones. How a page is cut is in `paging`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from django.contrib.postgres.search import SearchQuery
from django.db.models import Exists, OuterRef, Q, QuerySet
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from experiments import selectors
from experiments.api.paging import Page, PageQuery, read_page
from experiments.models import EXPERIMENT_TEXT, Attempt, Experiment, ExperimentState, Run, RunState
from hardware.models import NodeKind
from labsite.accounts.models import User


def _as_moment(value: object) -> object:
    """Refuses what pydantic would take for seconds since 1970: nobody writes a time so, and the document says not."""
    if isinstance(value, str) and not re.match(r"[0-9]{4}-[0-9]{2}-", value):
        raise ValueError("a time is written as 2026-01-31T12:00:00Z")
    return value


def _in_bounds(value: dt.datetime) -> dt.datetime:
    """In UTC. Refuses a time that the database, or a session in any time zone, could not hold."""
    try:
        moment = value.astimezone(dt.UTC)
    except OverflowError:
        moment = dt.datetime.max.replace(tzinfo=dt.UTC)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"a time is of the years {FIRST_YEAR} to {LAST_YEAR}")
    return moment


FIRST_YEAR, LAST_YEAR = 1900, 9000
# PostgreSQL's text takes no NUL.
Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]
Moment = Annotated[AwareDatetime, BeforeValidator(_as_moment), AfterValidator(_in_bounds)]
Key = Annotated[int, Field(ge=1, lt=2**63)]
SEARCH = "Words of the name, the question or the tags; the beginning of a word will do, and all must be there."

EXPERIMENT_COLUMNS = {"created_at": "pk", "name": "name", "priority": "priority", "ended_at": "ended_at"}
RUN_COLUMNS = {"created_at": "pk", "started_at": "started_at", "ended_at": "ended_at"}


class ExperimentQuery(PageQuery):
    sort: Literal[
        "created_at", "-created_at", "name", "-name", "priority", "-priority", "ended_at", "-ended_at"
    ] = "-created_at"  # fmt: skip
    search: Text | None = Field(default=None, description=SEARCH)
    state: ExperimentState | None = None
    tag: Text | None = Field(default=None, description="Has exactly this tag.")
    owner: Text | None = Field(default=None, description="User name.")
    project: Text | None = Field(default=None, description="Slug.")
    model: Text | None = Field(default=None, description="Names this model, also as a value of the matrix.")
    priority: int | None = Field(default=None, ge=-(2**15), lt=2**15)
    created_after: Moment | None = None
    created_before: Moment | None = None
    deleted: bool = Field(default=False, description="Those deleted within 30 days, in place of the others.")


class RunQuery(PageQuery):
    sort: Literal["created_at", "-created_at", "started_at", "-started_at", "ended_at", "-ended_at"] = "-created_at"
    search: Text | None = Field(default=None, description=f"Of the experiment: {SEARCH}")
    experiment: Key | None = None
    state: RunState | None = None
    valid: bool | None = None
    node: Text | None = Field(default=None, description="Slug of the node that had the run last.")
    model: Text | None = None
    modelled: bool | None = Field(default=None, description="On a modelled node, or on a measured one.")


def list_experiments(user: User, asked: ExperimentQuery) -> Page[Experiment]:
    """A page of the user's experiments, without their documents. Raises BadParameter."""
    mine = selectors.deleted_experiments(user) if asked.deleted else selectors.readable_experiments(user)
    conditions: dict[str, object] = {
        "state": asked.state,
        "tags__contains": [asked.tag] if asked.tag else None,
        "owner__username": asked.owner,
        "project__slug": asked.project,
        "priority": asked.priority,
        "created_at__gt": asked.created_after,
        "created_at__lt": asked.created_before,
    }
    rows = mine.filter(**given(conditions)).defer("spec", "document")
    if asked.model:
        rows = rows.filter(Q(spec__model=asked.model) | Q(spec__matrix__model__contains=[asked.model]))
    if asked.search:
        rows = matching(rows, asked.search)
    return read_page(rows, EXPERIMENT_COLUMNS, asked)


def list_runs(user: User, asked: RunQuery) -> Page[Run]:
    """A page of the user's runs with their experiments and trials, without their specs. Raises BadParameter."""
    conditions: dict[str, object] = {
        "experiment_id": asked.experiment,
        "state": asked.state,
        "valid": asked.valid,
        "spec__model__name": asked.model,
    }
    rows = selectors.readable_runs(user).filter(**given(conditions))
    if asked.search:
        found = matching(selectors.readable_experiments(user), asked.search)
        rows = rows.filter(experiment__in=found.order_by().values("pk"))
    latest = given({"node__slug": asked.node, "node__kind": _kind(asked.modelled)})
    if latest:
        attempts = Attempt.objects.filter(run=OuterRef("pk"), number=OuterRef("attempts_made"))
        rows = rows.filter(Exists(attempts.filter(**latest)))
    shown = rows.select_related("experiment", "trial").defer("spec", "distributions", "summary", "experiment__document")
    return read_page(shown.defer("experiment__spec"), RUN_COLUMNS, asked)


def matching(rows: QuerySet[Experiment], text: str) -> QuerySet[Experiment]:
    """Those in whose name, question or tags every word of the text begins a word."""
    words = text.split()
    query = " & ".join(f"{_quoted(word)}:*" for word in words)
    found = rows.annotate(words=EXPERIMENT_TEXT)
    return found.filter(words=SearchQuery(query, config="simple", search_type="raw")) if words else rows


def _quoted(word: str) -> str:
    """A word as to_tsquery takes it: it is split as the stored text is, whatever signs it holds."""
    return "'" + re.sub(r"(['\\])", r"\1\1", word) + "'"


def given(conditions: Mapping[str, object]) -> dict[str, object]:
    """The conditions of a filter that were asked for."""
    return {name: value for name, value in conditions.items() if value is not None}


def _kind(modelled: bool | None) -> NodeKind | None:
    if modelled is None:
        return None
    return NodeKind.MODELLED if modelled else NodeKind.MEASURED
