"""`python -m runners.agent.worker_process --home DIR --agent-fd N`: the node's Celery worker, a child of its agent.

It takes one message at a time, claims the attempt, hands it to the agent (see runners.agent.worker for what they
say to each other) and waits until the agent says that the run has ended. It runs nothing itself.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from runners import processes
from runners.agent.control import ControlError, ControlPlane, Refused, Unreachable
from runners.agent.home import Credentials, NodeHome
from runners.agent.traces import TraceNotHad, have_trace
from runners.spec import RunSpec
from runners.spool import AttemptKey
from runners.tasks import TaskContext, app

CLAIM_FOR_S = 60.0
CLAIM_AGAIN_S = 1.0


class AgentLink:
    """The worker's end of the socket pair. When the agent is gone, so is this process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ended: set[AttemptKey] = set()
        self._news = threading.Condition()
        threading.Thread(target=self._read, name="agent", daemon=True).start()

    def hand_over(self, key: AttemptKey, **content: Any) -> None:
        """Gives the attempt to the agent and waits until nothing of it runs any more."""
        line = json.dumps({"run_id": key.run_id, "attempt": key.attempt, **content}) + "\n"
        self._connection.sendall(line.encode())
        with self._news:
            self._news.wait_for(lambda: key in self._ended)

    def _read(self) -> None:
        with self._connection.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                answer = json.loads(line)
                with self._news:
                    self._ended.add(AttemptKey(answer["run_id"], answer["attempt"]))
                    self._news.notify_all()
        os._exit(0)  # the main thread may wait for a message or for a run; neither matters now


class Desk:
    """What the task needs: the node's home, the control plane, the agent."""

    def __init__(self, home: NodeHome, control: ControlPlane, agent: AgentLink) -> None:
        self._home = home
        self._control = control
        self._agent = agent

    def take(self, key: AttemptKey) -> str:
        """Claims the attempt and has it run. Says, for the log, what came of it."""
        spool, fault = self._home.spool(key), ""
        try:
            # Made before the claim: should this process die now, the agent finds it and reports the attempt.
            spool.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return "is here already; the message is ignored"
        except OSError as error:
            fault = f"the node can't keep the run's events: {error}"
        try:
            spec = self._claim(key)
        except Refused as refusal:
            spool.unlink(missing_ok=True)
            return f"is not for this node: {refusal.detail}; the message is ignored"
        except ControlError as error:
            self._agent.hand_over(key, error=f"the claim was not answered: {error}", retry=error.retry)
            return f"could not be claimed: {error}"
        if fault:
            self._agent.hand_over(key, error=fault, retry=False)
            return f"could not be started: {fault}"
        try:
            have_trace(spec, self._home.traces_dir, self._control)
        except (ControlError, TraceNotHad) as error:
            self._agent.hand_over(key, error=f"the run's trace could not be had: {error}", retry=error.retry)
            return f"could not be started: {error}"
        self._agent.hand_over(key, spec=spec.model_dump(mode="json"))
        return "has ended"

    def _claim(self, key: AttemptKey) -> RunSpec:
        """Claims, again and again while the lab does not answer. Raises Refused, and Unreachable when it can't be
        known whether an earlier try counted."""
        deadline = time.monotonic() + CLAIM_FOR_S
        lost: Unreachable | None = None
        while True:
            try:
                return self._control.claim(key)
            except Unreachable as error:
                lost = error
                if time.monotonic() > deadline:
                    raise
                time.sleep(CLAIM_AGAIN_S)
            except Refused:
                if lost is not None:
                    raise lost from None
                raise


def configure(credentials: Credentials) -> None:
    """Early acknowledgement, one message at a time, no results, no chatter: Postgres knows what is to be done."""
    app.conf.update(
        broker_url=credentials.broker_url,
        broker_transport_options={"global_keyprefix": credentials.key_prefix, "socket_keepalive": True},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_default_queue=credentials.queue,
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        task_serializer="json",
        accept_content=["json"],
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m runners.agent.worker_process", description="A node's worker.")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--agent-fd", type=int, required=True, help="this end of the socket pair with the agent")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s worker: %(message)s")
    processes.die_with_parent()
    home = NodeHome(options.home)
    credentials = home.credentials()
    control = ControlPlane(credentials.url, credentials.api_token)
    TaskContext.desk = Desk(home, control, AgentLink(socket.socket(fileno=options.agent_fd)))
    configure(credentials)
    app.worker_main(
        ["--quiet", "worker", "--pool", "solo", "--concurrency", "1", "--queues", credentials.queue,
         "--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat",
         "--hostname", f"{credentials.node}@%h"]
    )  # fmt: skip


if __name__ == "__main__":
    main()
