"""A client of the lab's REST API: JSON in, JSON out, typed errors, patience with a lab that restarts.

What may safely be sent twice (reads, and writes that say so) is sent again when the connection breaks or the server is
down for a moment; a 429 waits as long as it says. It knows the API's error shape and paging, none of its objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from runners.cli.errors import Refused, Unreachable

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
# How long a lab may be away (its web server is started again when it dies); who follows a run has more patience.
PATIENCE_S = 5.0
FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 4.0
LONGEST_RETRY_AFTER_S = 60.0
MOST_RATE_LIMITED = 10
PAGE = 200

Json = dict[str, Any]
Content = bytes | Iterable[bytes]
"""A body; pieces must be such as can be gone through again, should the request have to wait and go once more."""


class Client:
    """`url` is the lab's address, `token` a person's API token. Raises Refused and Unreachable.

    Paths are below `/api/v1`. Parameters that are None are left out; lists repeat. `tell` hears why a request waits
    before it goes again.
    """

    def __init__(
        self, url: str, token: str, *, patience_s: float = PATIENCE_S, tell: Callable[[str], None] | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self.patience_s = patience_s
        self._tell = tell or (lambda text: None)
        self._http = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "inference-lab"},
            timeout=TIMEOUT,
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **params: Any) -> Any:
        return self._json("GET", path, params, repeat=True)

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
        patience_s: float | None = None,
        **params: Any,
    ) -> Any:
        """`body` is sent as JSON, `content` as it is. `repeat` says that sending it twice does what once does, and
        `patience_s` that the answer may take longer than usual."""
        return self._json(
            "POST", path, params, body=body, content=content, headers=headers, repeat=repeat, patience_s=patience_s
        )

    def patch(self, path: str, body: Any) -> Any:
        return self._json("PATCH", path, {}, body=body, repeat=True)

    def delete(self, path: str) -> Any:
        return self._json("DELETE", path, {}, repeat=True)

    def items(self, path: str, most: int | None = None, **params: Any) -> Iterator[Json]:
        """Everything listed there, page by page; at most `most`."""
        left = most
        cursor: Any = None
        while left is None or left > 0:
            page = self.get(path, cursor=cursor, limit=PAGE if left is None else min(PAGE, left), **params)
            found = page["items"][:left]
            yield from found
            left = None if left is None else left - len(found)
            cursor = page["next"]
            if cursor is None:
                return

    @contextmanager
    def stream(self, path: str, **params: Any) -> Iterator[httpx.Response]:
        """An answer whose body is read piece by piece; not repeated once it has begun."""
        request = self._http.build_request("GET", _relative(path), params=_given(params), headers={"Accept": "*/*"})
        response = self._send(request, repeat=True, stream=True)
        try:
            yield response
        except httpx.HTTPError as error:
            raise Unreachable(f"the answer of {self.url} broke off: {_reason(error)}") from error
        finally:
            response.close()

    def _json(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any],
        *,
        body: Any = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool,
        patience_s: float | None = None,
    ) -> Any:
        request = self._http.build_request(
            method,
            _relative(path),
            params=_given(params),
            json=body if content is None and method not in ("GET", "DELETE") else None,
            content=content,
            headers=dict(headers or {}),
            timeout=TIMEOUT if patience_s is None else httpx.Timeout(patience_s, connect=10.0),
        )
        response = self._send(request, repeat=repeat)
        if response.status_code == 204 or not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise Unreachable(f"{self.url} answered {response.status_code} with something that is no JSON") from error

    def _send(self, request: httpx.Request, *, repeat: bool, stream: bool = False) -> httpx.Response:
        waits = _Waits(self.patience_s)
        while True:
            failure: Refused | Unreachable
            try:
                response = self._http.send(request, stream=stream)
            except httpx.HTTPError as error:
                failure = Unreachable(f"{self.url} can't be reached: {_reason(error)}")
                # A refused connection has sent nothing, so that any request may go again.
                pause_s = waits.next_s() if repeat or isinstance(error, httpx.ConnectError) else None
            else:
                if response.is_success:
                    return response
                failure = self._failure(response)
                pause_s = waits.after(response, repeat)
            if pause_s is None:
                raise failure
            self._tell(f"{failure}; again in {pause_s:.0f} s")
            time.sleep(pause_s)

    def _failure(self, response: httpx.Response) -> Refused | Unreachable:
        response.read()
        response.close()
        status = response.status_code
        if status >= 500:
            return Unreachable(f"{self.url} answered {status}: {_error_body(response)['detail']}")
        if status < 400:
            target = response.headers.get("Location", "elsewhere")
            return Unreachable(f"{self.url} sends us to {target}: is that the lab's address?")
        body = _error_body(response)
        if status == 404 and body["detail"] == "not found":  # the lab's own words, which name nothing
            place = response.request.url.path.partition("/api/v1")[2]
            return Refused(status, f"{place}: {body['detail']}, or not yours to see", body["errors"])
        return Refused(status, body["detail"], body["errors"])


class _Waits:
    """How long to wait before a request goes again; None where it should not."""

    def __init__(self, patience_s: float) -> None:
        self._deadline = time.monotonic() + patience_s
        self._wait_s = FIRST_WAIT_S
        self._limited = 0

    def after(self, response: httpx.Response, repeat: bool) -> float | None:
        """429 has done nothing and may always go again; a server that is down for a moment, where `repeat` says so."""
        if response.status_code == 429:
            self._limited += 1
            return _retry_after_s(response) if self._limited <= MOST_RATE_LIMITED else None
        return self.next_s() if repeat and response.status_code in (502, 503, 504) else None

    def next_s(self) -> float | None:
        wait_s, self._wait_s = self._wait_s, min(self._wait_s * 2, LONGEST_WAIT_S)
        return wait_s if time.monotonic() + wait_s <= self._deadline else None


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "1")
    return min(float(text), LONGEST_RETRY_AFTER_S) if text.isdecimal() else FIRST_WAIT_S


def _relative(path: str) -> str:
    return path.lstrip("/")


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _reason(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__


def _error_body(response: httpx.Response) -> Json:
    """The API's error shape; another server's page in its place becomes a short detail."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "detail" not in body:
        return {"detail": response.reason_phrase or "no reason given", "errors": []}
    return {"detail": str(body["detail"]), "errors": body.get("errors") or []}
