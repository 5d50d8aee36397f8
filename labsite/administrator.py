"""The account that a first start makes: a superuser, a token of his, the default project he is admin of."""

from __future__ import annotations

from django.db import transaction

from labsite.accounts.models import ApiToken, Membership, Project, Role, User
from labsite.accounts.tokens import digest_of
from labsite.first_start import PROJECT_NAME, Credentials

TOKEN_NAME = "first start"


@transaction.atomic
def ensure_administrator(credentials: Credentials) -> None:
    """Makes what is missing. An account or token that is there, changed or revoked since, stays as it is."""
    project, _ = Project.objects.get_or_create(slug="default", defaults={"name": PROJECT_NAME})
    user = User.objects.filter(username=credentials.username).first()
    if user is None:
        user = User.objects.create_superuser(credentials.username, password=credentials.password)
    Membership.objects.get_or_create(user=user, project=project, defaults={"role": Role.ADMIN})
    ApiToken.objects.get_or_create(
        digest=digest_of(credentials.token),
        defaults={"user": user, "name": TOKEN_NAME, "prefix": credentials.token[:12]},
    )
