"""The agent's loop: one thread that owns the node's state and does what the lab and the worker ask.

Beside it run the lease thread (heartbeats), the publisher (spools to broker) and the worker's reader; they only put
messages into the loop's inbox or read what it shows. Children are started here alone, so the thread that the kernel
takes for their parent lives as long as the agent. Nothing here waits long; `stop` is the one exception.
"""

from __future__ import annotations

import logging
import queue
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.agent.broker import StreamBroker
from runners.agent.control import CancelOrder, ControlError, ControlPlane, HeartbeatReply, Refused
from runners.agent.held import HeldModels
from runners.agent.home import Credentials, NodeHome
from runners.agent.last_words import LastWords
from runners.agent.lease import Lease, LeaseThread
from runners.agent.publish import Publisher, PublisherThread
from runners.agent.run_process import LEFT_BY_AGENT, Ending, RunProcess, clear_leftovers
from runners.agent.survey import Survey
from runners.agent.worker import Worker
from runners.engines.listed import ENGINES_FILE
from runners.engines.offers import EngineOffers
from runners.models.errors import NO_ROOM
from runners.spool import AttemptKey

TICK_S = 0.1
STOP_RUN_S = 5.5
SEND_REST_S = 1.0
LAST_HEARTBEAT_S = 1.0
MOST_OF_FAULT = 500
"""Characters of a node's fault that a heartbeat takes."""
CLEAN_END, BANISHED = 0, 3

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Heard:
    """A heartbeat that the lab answered: what we said, and its reply."""

    body: dict[str, Any]
    reply: HeartbeatReply


@dataclass(frozen=True)
class HandOver:
    """A line of the worker: a claimed run, or (without a spec) one whose claim was not answered as it should be."""

    key: AttemptKey
    spec: dict[str, Any] | None
    error: str = ""
    retry: bool = True


@dataclass(frozen=True)
class Stop:
    """SIGTERM or SIGINT."""


Message = Heard | HandOver | Refused | Stop


class Agent:
    """One node's agent, from the moment it has credentials. `run` returns its exit status."""

    def __init__(self, home: NodeHome, credentials: Credentials, models_dir: Path, measure: bool, version: str) -> None:
        self._home = home
        self._credentials = credentials
        self._models_dir = models_dir
        self._version = version
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._control = ControlPlane(credentials.url, credentials.api_token, version=version)
        self._lease = Lease()
        self._lease_thread = LeaseThread(self._control, self._lease, self)
        self._publisher = Publisher(home, StreamBroker(credentials.broker_url), credentials.stream_key)
        self._publisher_thread = PublisherThread(self._publisher)
        self._worker = Worker(home, self._worker_said)
        self._survey = None if credentials.modelled else Survey(home, measure)
        self._run: RunProcess | None = None
        self._next: HandOver | None = None
        self._ended: frozenset[AttemptKey] = frozenset()
        self._last_words = LastWords(home)
        self._held = HeldModels(models_dir)
        # A modelled node has no chip that another engine could run on.
        self._engines = None if credentials.modelled else EngineOffers(home.root / ENGINES_FILE)
        self._news: dict[str, Any] = {"models": self._held.news(now=True)}
        if credentials.modelled:
            self._news["facts"] = {"modelled": True, "chip": (credentials.chip or {}).get("name", "")}

    # What other threads call -----------------------------------------------------------------------------------------
    def heartbeat_body(self) -> dict[str, Any]:
        run, ended = self._run, self._ended
        return {
            "running": run.key._asdict() if run else None,
            "spools": [str(key) for key in self._home.spooled()],
            "ended": [key._asdict() for key in sorted(ended)],
            "agent_version": self._version,
            "fault": self._last_words.fault[:MOST_OF_FAULT],
            **self._news,
        }

    def heard(self, body: dict[str, Any], reply: HeartbeatReply) -> None:
        self._publisher.heard(reply.stored)
        self._inbox.put(Heard(body, reply))

    def banished(self, refusal: Refused) -> None:
        self._inbox.put(refusal)

    def ask_to_stop(self) -> None:
        self._inbox.put(Stop())

    def _worker_said(self, line: dict[str, Any]) -> None:
        self._inbox.put(HandOver(AttemptKey(line.pop("run_id"), line.pop("attempt")), **({"spec": None} | line)))

    # The loop --------------------------------------------------------------------------------------------------------
    def run(self) -> int:
        """Works until it is told to stop (0) or the lab no longer knows this node, or its version (3)."""
        self._last_words.retry()
        for key in clear_leftovers(self._home):
            self._close_without_run(key, LEFT_BY_AGENT)
        self._lease_thread.start()
        self._publisher_thread.start()
        log.info("node %s (%s) works for %s", self._credentials.node, self._credentials.kind, self._credentials.url)
        status = None
        try:
            while status is None:
                status = self._turn()
        finally:
            self._stop()
        return status

    def _turn(self) -> int | None:
        """One round: a message, if there is one, and a look at everything we keep. An exit status ends the loop."""
        try:
            message = self._inbox.get(timeout=TICK_S)
        except queue.Empty:
            message = None
        match message:
            case Stop():
                return CLEAN_END
            case Refused():
                why = "refuses this agent" if message.wrong_version else "no longer knows this node"
                log.error("the lab at %s %s: %s", self._credentials.url, why, message.detail)
                return BANISHED
            case Heard():
                self._obey(message)
            case HandOver():
                self._take_over(message)
        self._look_after_run()
        self._look_after_last_words()
        self._look_after_worker()
        self._look_after_models()
        self._look_after_engines()
        return None

    def _obey(self, heard: Heard) -> None:
        """Does what a heartbeat's reply orders, and forgets what the lab has now been told."""
        self._news = {name: value for name, value in self._news.items() if heard.body.get(name) is not value}
        for order in heard.reply.cancel:
            self._cancel(order)
        for name in heard.reply.discard:
            key = AttemptKey.parse(name)
            if not self._is_under_way(key):
                self._home.discard(key)
        kept = set(self._home.spooled())
        told = {AttemptKey(**item) for item in heard.body["ended"]}
        self._ended = frozenset(key for key in self._ended if key in kept or key not in told)

    def _cancel(self, order: CancelOrder) -> None:
        ending = Ending("cancelled", order.reason or "cancelled", retry=False)
        if self._run and self._run.key == order.key:
            log.info("run %d, attempt %d: the lab ends it (%s)", order.run_id, order.attempt, ending.error)
            self._run.end(ending)
        elif self._next and self._next.key == order.key:
            self._next = None
            self._close_without_run(order.key, ending)
        elif order.key in self._last_words.unsaid or order.key not in self._home.spooled():
            # Nothing of it runs, nor is it being claimed: no process is left. The next heartbeat says so.
            self._ended |= {order.key}

    def _take_over(self, given: HandOver) -> None:
        """A run for us. One that is still under way then no longer counts, or the lab would not have given another."""
        if given.spec is None:
            self._close_without_run(given.key, Ending("failed", given.error, given.retry))
            return
        if self._run is not None:
            self._run.end(Ending("cancelled", f"the lab gave this node attempt {given.key} instead", retry=False))
        self._next = given

    def _look_after_run(self) -> None:
        if self._run is not None:
            if self._lease.expired:
                self._run.end(Ending("failed", "the lab did not answer until the node's lease ran out", retry=True))
            ending = self._run.poll()
            if ending is None:
                return
            ended, self._run = self._run, None
            self._close_without_run(ended.key, ending)
        if self._next is not None:
            given, self._next = self._next, None
            assert given.spec is not None
            self._start(given.key, given.spec)

    def _start(self, key: AttemptKey, spec: dict[str, Any]) -> None:
        log.info("run %d, attempt %d: starting", key.run_id, key.attempt)
        try:
            self._run = RunProcess(self._home, key, spec, self._models_dir, self._credentials.modelled)
        except OSError as error:
            # A full disk stays full until somebody makes room: another try here would fail alike.
            retry = error.errno not in NO_ROOM
            self._close_without_run(key, Ending("failed", f"the node could not start the run: {error}", retry))
            return
        self._lease_thread.beat_soon()

    def _look_after_last_words(self) -> None:
        had_room = not self._last_words.fault
        for key in self._last_words.retry():
            self._close(key)
        if had_room is bool(self._last_words.fault):
            self._lease_thread.beat_soon()

    def _look_after_worker(self) -> None:
        if self._survey is not None:
            self._survey.poll()
            if not self._survey.done:
                return
            found = {"facts": self._survey.facts, "ceilings": self._survey.ceilings}
            self._news = {**self._news, **{name: value for name, value in found.items() if value is not None}}
            self._survey = None
            self._lease_thread.beat_soon()
        if self._worker.keep():
            self._close_claims_of_dead_worker()

    def _look_after_models(self, *, now: bool = False) -> None:
        held = self._held.news(now=now)
        if held is not None:
            self._news = {**self._news, "models": held}

    def _look_after_engines(self) -> None:
        offered = self._engines.news() if self._engines is not None else None
        if offered is not None:
            self._news = {**self._news, "engines": offered}
            self._lease_thread.beat_soon()

    def _close_claims_of_dead_worker(self) -> None:
        """The worker may have died between making a spool and handing the run over: nobody else would end those."""
        if not self._inbox.empty():
            self._requeue_inbox()
        for key in self._home.spooled():
            if key not in self._ended and not self._is_under_way(key):
                self._close_without_run(key, Ending("failed", "the node's worker ended before the run began", True))

    def _requeue_inbox(self) -> None:
        """Takes over what the dead worker had still said."""
        for _ in range(self._inbox.qsize()):
            message = self._inbox.get()
            if isinstance(message, HandOver):
                self._take_over(message)
            else:
                self._inbox.put(message)

    def _is_under_way(self, key: AttemptKey) -> bool:
        return any(one is not None and one.key == key for one in (self._run, self._next))

    def _close_without_run(self, key: AttemptKey, ending: Ending) -> None:
        if self._last_words.say(key, ending):
            self._close(key)

    def _close(self, key: AttemptKey) -> None:
        self._ended |= {key}
        self._look_after_models(now=True)
        self._worker.answer_ended(key)
        self._lease_thread.beat_soon()

    def _stop(self) -> None:
        """Ends worker, survey and run within seconds, and tells the lab what it can still be told."""
        if self._survey is not None:
            self._survey.stop()
        self._worker.stop()
        self._end_run(Ending("failed", "the node's agent was stopped", retry=True))
        self._lease_thread.stop()
        self._publisher_thread.wait_until_sent(SEND_REST_S)
        self._publisher_thread.stop()
        try:
            ControlPlane(self._credentials.url, self._credentials.api_token, LAST_HEARTBEAT_S).heartbeat(
                self.heartbeat_body()
            )
        except ControlError as error:
            log.info("the lab was not told that this node stops: %s", error)

    def _end_run(self, ending: Ending) -> None:
        for key in [one.key for one in (self._next,) if one is not None]:
            self._close_without_run(key, ending)
        if self._run is None:
            return
        self._run.end(ending)
        deadline = time.monotonic() + STOP_RUN_S
        while (ended := self._run.poll()) is None:
            if time.monotonic() > deadline:
                log.error("processes of attempt %s are left", self._run.key)
                return
            time.sleep(TICK_S / 2)
        key, self._run = self._run.key, None
        self._close_without_run(key, ended)
