"""`inference-lab-node`: joins this machine to a lab as a node, or runs the agent of a node that has joined.

    inference-lab-node join URL --token TOKEN [--home DIR] [--models DIR]
    inference-lab-node run [--home DIR] [--models DIR] [--measure]

Exit status: 0 after SIGTERM or Ctrl-C, 1 when it can't start, 2 for a wrong command line, 3 when the lab no longer
knows this node, or speaks another node protocol.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path

from runners import models
from runners.agent.control import ControlError, ControlPlane
from runners.agent.detect import detect
from runners.agent.home import Credentials, HomeInUse, NodeHome, NotJoined
from runners.agent.loop import Agent
from runners.agent.version import agent_version

CANNOT_START = 1

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    options = parse_options(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        home = NodeHome(options.home)
        home.acquire()
        credentials = join(home, options.url, options.token) if options.command == "join" else home.credentials()
    except (HomeInUse, NotJoined, ControlError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return CANNOT_START
    agent = Agent(home, credentials, options.models, options.measure, agent_version())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.ask_to_stop())
    return agent.run()


def parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="inference-lab-node", description="Makes this machine a node of a lab.")
    commands = parser.add_subparsers(dest="command", required=True)
    join_command = commands.add_parser("join", help="join a lab with a token from its operator, then run")
    join_command.add_argument("url", metavar="URL", help="the lab's address, such as https://lab.example.org")
    join_command.add_argument("--token", required=True, help="the join token (works once, within minutes)")
    run_command = commands.add_parser("run", help="run a node that has joined")
    for command in (join_command, run_command):
        command.add_argument("--home", type=Path, default=default_home(), help="where the node keeps its state")
        command.add_argument("--models", type=Path, default=models.default_models_dir(), help="where model files lie")
        command.add_argument("--measure", action="store_true", help="measure the machine's ceilings again")
    return parser.parse_args(argv)


def default_home() -> Path:
    return Path(os.environ.get("LAB_NODE_HOME") or models.lab_home() / "node")


def join(home: NodeHome, url: str, token: str) -> Credentials:
    """Spends the token and keeps the credentials it gives. Raises ControlError."""
    version = agent_version()
    credentials = ControlPlane(url.rstrip("/"), version=version).join(token, detect(), version)
    home.save_credentials(credentials)
    log.info("joined %s as node %s (%s)", url, credentials.node, credentials.kind)
    return credentials


if __name__ == "__main__":
    raise SystemExit(main())
