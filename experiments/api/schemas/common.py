"""What the API's bodies and pages have in common, and which errors an endpoint may answer."""

from __future__ import annotations

from ninja import Schema
from pydantic import ConfigDict, Field

# Which errors an endpoint may answer; 401, 404, 422 (a bad parameter) and 429 (too many requests) are everywhere.
READ_ERRORS = frozenset({401, 404, 422, 429})
COMPARE_ERRORS = READ_ERRORS | {400}
CONTROL_ERRORS = READ_ERRORS | {403}
STATE_ERRORS = CONTROL_ERRORS | {409}
EDIT_ERRORS = CONTROL_ERRORS | {400, 413}
CLONE_ERRORS = EDIT_ERRORS | {409}
CHECK_ERRORS = frozenset({400, 401, 413, 415, 422, 429})
SUBMIT_ERRORS = CHECK_ERRORS | {403, 409}


class StrictBody(Schema):
    """A body whose unknown keys are refused, so that a misspelt one is not passed over, and whose types are meant."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PageOut(Schema):
    next: str | None = Field(
        description="Pass it as `cursor`, with the same sort, for the next page; null on the last."
    )
