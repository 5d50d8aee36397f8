"""The one shape of every error of the REST API, as its document publishes it. Errors are made in `api_errors`."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import Field


class FieldFault(Schema):
    field: str = Field(description="Dotted path of the field; empty for the request as a whole.")
    message: str
    allowed: Any = Field(None, description="What would have been taken, where that can be said.")


class ErrorBody(Schema):
    """The one shape of every error."""

    detail: str
    errors: list[FieldFault] = []
