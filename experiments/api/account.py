"""REST for the caller's own account: who he is, what he may do where, and his API tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query, Router, Status
from pydantic import Field

from experiments.api.auth import person
from experiments.api.listing import Moment
from experiments.api.paging import PageQuery, read_page
from experiments.api.schemas import (
    CONTROL_ERRORS,
    EDIT_ERRORS,
    READ_ERRORS,
    Me,
    MembershipOut,
    NewTokenOut,
    StrictBody,
    TokenOut,
    TokenPage,
)
from labsite.accounts.bearer import presented_token
from labsite.accounts.models import ApiToken
from labsite.accounts.permissions import roles_of
from labsite.accounts.tokens import NAME_LENGTH, TokenRefused, create_token, revoke_token, tokens_of
from labsite.error_body import ErrorBody

router = Router(tags=["account"])

COLUMNS = {"created_at": "pk", "name": "name", "last_used_at": "last_used_at", "expires_at": "expires_at"}


class TokenQuery(PageQuery):
    sort: Literal[
        "created_at", "-created_at", "name", "-name", "last_used_at", "-last_used_at", "expires_at", "-expires_at"
    ] = "-created_at"  # fmt: skip
    live: bool | None = Field(default=None, description="Those that still open something, or those that do not.")


class TokenIn(StrictBody):
    name: str = Field(min_length=1, max_length=NAME_LENGTH, description="What it is for, in printable characters.")
    expires_at: Annotated[Moment | None, Field(strict=False, description="Null: until it is revoked.")] = None


@router.get("/me", response={200: Me, READ_ERRORS: ErrorBody}, summary="Who is asking, and what he may do where")
def me(request: HttpRequest) -> Me:
    user, token = person(request), presented_token(request)
    roles = roles_of(user)
    return Me(
        username=user.get_username(),
        is_superuser=user.is_superuser,
        theme=user.theme,
        time_zone=user.time_zone,
        projects=[MembershipOut(slug=one.slug, name=one.name, role=role.label) for one, role in roles],
        token=_token_out(token) if token else None,
    )


@router.get("/tokens", response={200: TokenPage, READ_ERRORS: ErrorBody}, summary="Your API tokens")
def list_tokens(request: HttpRequest, asked: Query[TokenQuery]) -> TokenPage:
    page = read_page(tokens_of(person(request), live=asked.live), COLUMNS, asked)
    return TokenPage(items=[_token_out(token) for token in page.items], next=page.next)


@router.post(
    "/tokens",
    response={201: NewTokenOut, EDIT_ERRORS: ErrorBody},
    summary="Make an API token",
    description="The token is shown in this answer and never again. One that expires makes none that outlasts it.",
)
def make_token(request: HttpRequest, response: HttpResponse, body: TokenIn) -> Status[NewTokenOut]:
    response["Cache-Control"] = "no-store"
    asking = presented_token(request)
    latest = asking.expires_at if asking else None
    if latest and (body.expires_at is None or body.expires_at > latest):
        raise TokenRefused("expires_at", "the token that asks for it would be outlasted", f"up to {latest.isoformat()}")
    made = create_token(person(request), body.name, body.expires_at)
    return Status(201, NewTokenOut(**_token_out(made.record).dict(), token=made.plain))


@router.delete("/tokens/{token_id}", response={204: None, CONTROL_ERRORS: ErrorBody}, summary="Revoke an API token")
def delete_token(request: HttpRequest, token_id: Annotated[int, Path(ge=1, lt=2**63)]) -> Status[None]:
    user = person(request)
    revoke_token(tokens_of(user).get(pk=token_id), by=user)
    return Status(204, None)


def _token_out(token: ApiToken) -> TokenOut:
    return TokenOut(
        id=token.pk,
        name=token.name,
        prefix=token.prefix,
        created_at=token.created_at,
        last_used_at=token.last_used_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
    )
