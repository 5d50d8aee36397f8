"""People, their tokens and what they did, as the API gives it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from experiments.api.schemas.common import PageOut


class MembershipOut(Schema):
    slug: str
    name: str
    role: str


class TokenOut(Schema):
    id: int
    name: str
    prefix: str = Field(description="How the token begins; the rest is kept nowhere.")
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class NewTokenOut(TokenOut):
    token: str = Field(description="The token itself, shown this once.")


class TokenPage(PageOut):
    items: list[TokenOut]


class Me(Schema):
    username: str
    is_superuser: bool = Field(description="An admin in every project.")
    theme: str
    time_zone: str
    projects: list[MembershipOut]
    token: TokenOut | None = Field(description="The token that asks; null for a session.")


class AuditEntryOut(Schema):
    id: int
    at: datetime
    actor: str | None = Field(description="User name, also of one since deleted; null where the lab itself did it.")
    action: str
    object_type: str
    object_id: str
    object_name: str
    project: str | None
    via: str = Field(description="page, api, admin, node or system.")
    address: str | None
    detail: dict[str, Any]


class AuditPage(PageOut):
    items: list[AuditEntryOut]
