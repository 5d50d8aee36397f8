"""A small client of the lab's REST API: JSON in, JSON out, one typed error."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, cast

TIMEOUT_S = 30.0

Json = dict[str, Any]


class ApiRefused(Exception):
    """The API answered with an error; the message holds its status, its detail and each field's complaint."""

    def __init__(self, status: int, body: Json) -> None:
        complaints = [f"{error.get('field')}: {error.get('message')}" for error in body.get("errors") or []]
        super().__init__("; ".join([f"{status} {body.get('detail', '')}", *complaints]))
        self.status = status


@dataclass(frozen=True)
class Api:
    """`url` is the lab's address, `token` a person's API token."""

    url: str
    token: str

    def get(self, path: str) -> Json:
        return self._send(urllib.request.Request(self._address(path)))

    def post(self, path: str, body: bytes, content_type: str, headers: dict[str, str] | None = None) -> Json:
        request = urllib.request.Request(self._address(path), data=body, method="POST", headers=headers or {})
        request.add_header("Content-Type", content_type)
        return self._send(request)

    def _address(self, path: str) -> str:
        return f"{self.url}/api/v1{path}"

    def _send(self, request: urllib.request.Request) -> Json:
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Accept", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return cast(Json, json.load(response))
        except urllib.error.HTTPError as error:
            raise ApiRefused(error.code, _body_of(error)) from error


def _body_of(error: urllib.error.HTTPError) -> Json:
    text = error.read().decode(errors="replace")
    try:
        body = json.loads(text)
    except ValueError:
        return {"detail": text[:200]}
    return body if isinstance(body, dict) else {"detail": text[:200]}
