"""Several nodes in one process: an agent for each, on a thread of its own.

A thread starts all children of its agent and lives as long as the agent does, so that the kernel ends them with it; a
node that waits for its disk or is told to leave keeps no other waiting. Nodes of one process share nothing but that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from runners.agent.loop import BANISHED, CLEAN_END

CRASHED = 1

log = logging.getLogger(__name__)


class Hosted(Protocol):
    """An agent, as its host sees it."""

    def run(self) -> int: ...

    def ask_to_stop(self) -> None: ...


class Host:
    """Runs the agents until each has ended. `run` returns the exit status of the process."""

    def __init__(self, agents: Sequence[Hosted]) -> None:
        self._agents = agents
        self._statuses: list[int] = []

    def run(self) -> int:
        """CLEAN_END after they were told to stop, BANISHED where the lab knows none of them any more, CRASHED where one
        ended by a fault of its own: then the others are stopped too, and whoever keeps the process starts it again."""
        threads = [
            threading.Thread(target=self._run, args=(agent,), name=f"agent-{place}")
            for place, agent in enumerate(self._agents)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if CRASHED in self._statuses:
            return CRASHED
        return BANISHED if set(self._statuses) == {BANISHED} else CLEAN_END

    def ask_to_stop(self) -> None:
        for agent in self._agents:
            agent.ask_to_stop()

    def _run(self, agent: Hosted) -> None:
        try:
            status = agent.run()
        except Exception:  # whatever it was, whoever keeps this process must see it
            log.exception("an agent has failed, and the process ends with all of its nodes")
            status = CRASHED
            self.ask_to_stop()
        self._statuses.append(status)
