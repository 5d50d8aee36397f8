"""The node's lease on its work: renewed over REST by a thread of its own, which nothing else can stall.

The lease counts from when a heartbeat was sent, on this machine's monotonic clock, so it never outlasts what the
control plane believes. What a reply orders is for the agent's loop to do; this thread only hands it on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from runners.agent.control import ControlError, ControlPlane, HeartbeatReply, Refused

LEASE_S = 15.0
HEARTBEAT_S = 5.0
RETRY_S = 1.0

log = logging.getLogger(__name__)


class Lease:
    """Until when the control plane counts on this node. Thread-safe: one float, replaced whole."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expires_s: float | None = None

    def renew(self, sent_s: float, lease_s: float) -> None:
        self._expires_s = sent_s + lease_s

    @property
    def expired(self) -> bool:
        """True from the end of the last renewal on; a lease that was never given can't run out."""
        return self._expires_s is not None and self._clock() > self._expires_s


class Listener(Protocol):
    """The agent's loop, as the lease thread sees it."""

    def heartbeat_body(self) -> dict[str, Any]:
        """What the node has to say now. Called on the lease thread: must not wait for anything."""

    def heard(self, body: dict[str, Any], reply: HeartbeatReply) -> None: ...

    def banished(self, refusal: Refused) -> None: ...


class LeaseThread(threading.Thread):
    """Sends a heartbeat every few seconds until stopped or banished; a failed one is tried again after a second."""

    def __init__(self, control: ControlPlane, lease: Lease, listener: Listener) -> None:
        super().__init__(name="lease", daemon=True)
        self._control = control
        self._lease = lease
        self._listener = listener
        self._wake = threading.Event()
        self._stopped = False
        self._silent_since: float | None = None

    def run(self) -> None:
        while not self._stopped:
            self._wake.wait(self.beat())
            self._wake.clear()

    def beat(self) -> float:
        """Sends one heartbeat and says after how many seconds the next is due."""
        body = self._listener.heartbeat_body()
        sent_s = time.monotonic()
        try:
            reply = self._control.heartbeat(body)
        except Refused as refusal:
            if refusal.banished:
                self._stopped = True
                self._listener.banished(refusal)
            else:
                log.error("the lab refuses the heartbeat: %s", refusal)
            return HEARTBEAT_S
        except ControlError as error:
            self._note_silence(sent_s, error)
            return RETRY_S
        self._lease.renew(sent_s, reply.lease_s)
        self._note_answer()
        self._listener.heard(body, reply)
        return reply.heartbeat_s

    def beat_soon(self) -> None:
        """Something happened that the lab should know before the next heartbeat is due."""
        self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def _note_silence(self, now_s: float, error: ControlError) -> None:
        if self._silent_since is None:
            self._silent_since = now_s
            log.warning("%s; trying again until it answers", error)

    def _note_answer(self) -> None:
        if self._silent_since is not None:
            log.info("the lab answers again after %.0f s", time.monotonic() - self._silent_since)
            self._silent_since = None
