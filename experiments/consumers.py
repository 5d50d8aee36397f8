"""The sockets: authorise once, then forward. What is sent is decided in experiments.live.

    /ws/runs/<id>?after=<attempt>-<seq>    attempt, state, events, dropped, end
    /ws/experiments/<id>                   progress, end

Closed with 4400 (bad `after`), 4401 (not signed in), 4403 (another site's page), 4404 (not there, or not yours).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from experiments import selectors
from experiments.live.access import (
    BAD_REQUEST,
    FORBIDDEN,
    NOT_FOUND,
    NOT_SIGNED_IN,
    headers_of,
    origin_is_ours,
    person_of,
)
from experiments.live.feed import Position, RunFeed
from experiments.live.snapshots import experiment_progress, in_thread
from experiments.live.watch import WatchEnded, watches
from experiments.models import Experiment, Run
from labsite.accounts.models import User

log = logging.getLogger(__name__)

PROGRESS_EVERY_S = 0.5
ENDED = 1000
FAILED = 1011
AFTER = re.compile(r"([0-9]{1,9})-([0-9]{1,18})")


class Refused(Exception):
    """The socket is closed with this code."""

    def __init__(self, code: int) -> None:
        self.code = code


class LabSocket(AsyncWebsocketConsumer, ABC):  # type: ignore[misc]
    """Opens, authorises, and then sends what `feed` has, until it ends or the client goes."""

    _task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        # Accepted first: a browser's script sees the code of a close, never that of a refused handshake.
        await self.accept()
        self._task = asyncio.create_task(self._serve())

    async def disconnect(self, code: int) -> None:
        if self._task:
            self._task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is expected of a client."""

    async def _serve(self) -> None:
        code = await self._serve_until_over()
        # A client that has gone can't be told.
        with suppress(OSError):
            await self.close(code)

    async def _serve_until_over(self) -> int:
        """Serves the client; gives the code to close with."""
        try:
            await self.feed(await self._admit())
        except Refused as refusal:
            return refusal.code
        except OSError:  # the server's way of saying that the client has gone
            return ENDED
        except WatchEnded:
            return FAILED
        except Exception:
            log.exception("a socket failed: %s", self.scope["path"])
            return FAILED
        return ENDED

    async def _admit(self) -> int:
        headers = headers_of(self.scope)
        if "authorization" not in headers and not origin_is_ours(headers):
            raise Refused(FORBIDDEN)
        user = await in_thread(person_of)(self.scope)
        if user is None:
            raise Refused(NOT_SIGNED_IN)
        subject = int(self.scope["url_route"]["kwargs"]["id"])
        try:
            await in_thread(self.read_subject)(user, subject)
        except (Run.DoesNotExist, Experiment.DoesNotExist):
            raise Refused(NOT_FOUND) from None
        return subject

    @abstractmethod
    def read_subject(self, user: User, subject: int) -> Any:
        """What is to be shown, read as this user may. Blocking. Raises DoesNotExist."""

    @abstractmethod
    async def feed(self, subject: int) -> None:
        """Sends all there is to say of it, then returns."""

    async def send_text(self, text: str) -> None:
        await self.send(text_data=text)


class RunSocket(LabSocket):
    def read_subject(self, user: User, subject: int) -> Run:
        return selectors.get_run(user, subject)

    async def feed(self, subject: int) -> None:
        start = self._start()
        async with watches().subscribe(subject) as subscription:
            await RunFeed(subject, start, subscription, watches().broker, self.send_text).follow()

    def _start(self) -> Position:
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        found = AFTER.fullmatch(query.get("after", ["0-0"])[-1])
        if not found:
            raise Refused(BAD_REQUEST)
        return Position(int(found[1]), int(found[2]))


class ExperimentSocket(LabSocket):
    def read_subject(self, user: User, subject: int) -> Experiment:
        return selectors.get_experiment(user, subject)

    async def feed(self, subject: int) -> None:
        shown: dict[str, Any] = {}
        over = False
        while not over:
            message, over = await in_thread(experiment_progress)(subject)
            if message != shown:
                shown = message
                await self.send_text(json.dumps(message))
            if not over:
                await asyncio.sleep(PROGRESS_EVERY_S)
        await self.send_text(json.dumps({"type": "end"}))


class NoSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Any other address."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(NOT_FOUND)
