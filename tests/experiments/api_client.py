"""A person at the REST API, with an API token."""

from __future__ import annotations

import json
from typing import Any

from control_plane import person, team
from django.http import HttpResponse
from django.test import Client

from labsite.accounts.models import Project, Role, User
from labsite.accounts.tokens import create_token

SHAPE = {"detail", "errors"}
FAULT = {"field", "message", "allowed"}


class Caller:
    """Sends requests as one user. `token` None sends no credentials."""

    def __init__(self, user: User | None, token: str | None = None) -> None:
        self.user = user
        self.token = token or (create_token(user, "test").plain if user else None)
        self._client = Client(raise_request_exception=False)

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self._client.get(f"/api/v1{path}", headers=self._headers(headers))

    def post(self, path: str, body: Any = None, kind: str = "application/json", **headers: str) -> HttpResponse:
        data = body if isinstance(body, str | bytes) else json.dumps(body if body is not None else {})
        return self._client.post(f"/api/v1{path}", data=data, content_type=kind, headers=self._headers(headers))

    def patch(self, path: str, body: Any, **headers: str) -> HttpResponse:
        return self._client.patch(
            f"/api/v1{path}", json.dumps(body), content_type="application/json", headers=self._headers(headers)
        )

    def delete(self, path: str) -> HttpResponse:
        return self.call("DELETE", path)

    def call(self, method: str, path: str) -> HttpResponse:
        return self._client.generic(method, f"/api/v1{path}", headers=self._headers({}))

    def _headers(self, others: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in others.items()}
        return named | ({"Authorization": f"Bearer {self.token}"} if self.token else {})


def member(project: Project | None = None, role: Role = Role.RESEARCHER) -> Caller:
    return Caller(person(project or team(), role))


NOBODY = Caller(None)


def refused(response: HttpResponse, status: int) -> dict[str, Any]:
    """The error's body, which must have the one shape."""
    assert response.status_code == status, response.content
    body: dict[str, Any] = response.json()
    assert set(body) == SHAPE
    assert body["detail"] and isinstance(body["detail"], str)
    assert all(set(fault) == FAULT for fault in body["errors"])
    return body


def assert_people_only(method: str, path: str) -> None:
    """No token, a wrong one, and another scheme open nothing."""
    for caller in (NOBODY, Caller(None, "lab_wrong")):
        response = caller.call(method, path)
        refused(response, 401)
        assert response["WWW-Authenticate"] == "Bearer"
