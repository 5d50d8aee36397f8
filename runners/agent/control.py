"""The agent's side of the node REST: join, heartbeat, claim.

Plain requests over urllib, so that an agent needs no event loop. Retrying is the caller's choice: an error says
whether it makes sense.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.agent.home import Credentials
from runners.protocol import HEADER, NODE_PROTOCOL
from runners.protocol import STATUS as WRONG_PROTOCOL
from runners.spec import RunSpec
from runners.spool import AttemptKey

Answer = TypeVar("Answer", bound=BaseModel)
CHUNK_BYTES = 1024 * 1024
TRACE_TIMEOUT_S = 30.0
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class ControlError(Exception):
    """The control plane gave no useful answer. `retry` says whether the same request may succeed later."""

    retry = False


class Unreachable(ControlError):
    retry = True


class WrongAddress(ControlError):
    """Something answers there, but it isn't a lab."""


class Refused(ControlError):
    """The control plane said no. `status` is HTTP's; 401 and 403 mean that this node's credentials no longer count,
    426 that the agent is of another version than the lab."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

    @property
    def banished(self) -> bool:
        return self.status in (401, 403) or self.wrong_version

    @property
    def wrong_version(self) -> bool:
        return self.status == WRONG_PROTOCOL


class CancelOrder(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: int
    attempt: int
    reason: str = ""

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.run_id, self.attempt)


class HeartbeatReply(BaseModel):
    """What the lab answers to a heartbeat. `stored` and `discard` name attempts as `<run>-<attempt>`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    lease_s: float = 15.0
    heartbeat_s: float = 5.0
    cancel: tuple[CancelOrder, ...] = ()
    stored: dict[str, int] = Field(default_factory=dict)
    discard: tuple[str, ...] = ()
    drain: bool = False


@dataclass(frozen=True)
class ControlPlane:
    """One lab, by its address, and this node's token (none before it has joined). `version` is the agent's."""

    url: str
    token: str = ""
    timeout_s: float = 4.0
    version: str = ""

    def join(self, token: str, facts: dict[str, Any], agent_version: str) -> Credentials:
        """Spends a join token. Raises Refused (bad, used or expired token), Unreachable, WrongAddress."""
        body = {"token": token, "facts": facts, "agent_version": agent_version}
        answer = self._post("join", body, timeout_s=20.0)
        return self._validated(Credentials, {**answer, "url": self.url})

    def heartbeat(self, body: dict[str, Any]) -> HeartbeatReply:
        return self._validated(HeartbeatReply, self._post("heartbeat", body))

    def claim(self, key: AttemptKey) -> RunSpec:
        """Takes an attempt that was assigned to this node. Raises Refused with status 409 where it isn't (any more)."""
        answer = self._post("claim", {"run_id": key.run_id, "attempt": key.attempt}, timeout_s=15.0)
        return self._validated(RunSpec, answer)

    def save_trace(self, sha256: str, file: BinaryIO, most_bytes: int) -> None:
        """Writes a trace's file, which this node's run replays, as it comes. Raises Refused and Unreachable; OSError
        where it can't be written."""
        left = most_bytes
        with self._answer(f"traces/{sha256}", None, TRACE_TIMEOUT_S) as response:
            while chunk := self._read(response):
                left -= len(chunk)
                if left < 0:
                    raise WrongAddress(f"{self.url} sends more of a trace than the {most_bytes} bytes that it said")
                file.write(chunk)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the answer of {self.url} broke off: {error}") from error

    def _validated(self, model: type[Answer], answer: Any) -> Answer:
        try:
            return model.model_validate(answer)
        except ValidationError as error:
            raise WrongAddress(
                f"{self.url} gave an answer that this version of the agent can't read: {error}"
            ) from error

    def _post(self, path: str, body: dict[str, Any], timeout_s: float | None = None) -> Any:
        with self._answer(path, json.dumps(body).encode(), timeout_s or self.timeout_s) as response:
            try:
                content = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise Unreachable(f"the answer of {self.url} broke off: {error}") from error
        return self._parsed(content)

    def _answer(self, path: str, body: bytes | None, timeout_s: float) -> http.client.HTTPResponse:
        """The answer to a POST, or without a body to a GET, before it is read."""
        url = f"{self.url.rstrip('/')}/api/v1/node/{path}"
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"inference-lab-node {self.version}".strip(),
            HEADER: str(NODE_PROTOCOL),
        }
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            request = urllib.request.Request(url, body, headers)
            response: http.client.HTTPResponse = self._opener().open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from error
        except ValueError as error:
            raise WrongAddress(
                f"{self.url!r} is no address of a lab: {error}; expected http(s)://HOST[:PORT]"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise Unreachable(f"no answer from the lab at {self.url}: {reason}") from error
        return response

    def _opener(self) -> urllib.request.OpenerDirector:
        # A proxy of the environment is for the outside; a lab on this machine is reached directly.
        direct = urlsplit(self.url).hostname in LOOPBACK
        return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if direct else []))

    def _parsed(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError as error:
            raise WrongAddress(f"{self.url} answers, but not as a lab does (no JSON)") from error

    def _refusal(self, error: urllib.error.HTTPError) -> ControlError:
        with error:
            content = error.read()
        if error.code >= 500 or error.code in (408, 429):
            return Unreachable(f"the lab at {self.url} answers with status {error.code}")
        try:
            detail = str(json.loads(content)["detail"])
        except (ValueError, KeyError, TypeError):
            return WrongAddress(f"{self.url} answers with status {error.code}, but not as a lab does")
        return Refused(error.code, detail)
