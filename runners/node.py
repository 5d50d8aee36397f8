"""`inference-lab-node`: joins this machine to a lab as a node, or runs the agents of nodes that have joined.

    inference-lab-node join URL --token TOKEN [--home DIR] [--models DIR] [--only-join]
    inference-lab-node run [--home DIR]… [--models DIR] [--measure]

One process hosts as many nodes as it is given homes. Exit status: 0 after SIGTERM or Ctrl-C, 1 when it can't start, 2
for a wrong command line, 3 when the lab no longer knows any of its nodes, or speaks another node protocol.
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
from runners.agent.home import HomeInUse, NodeHome, NotJoined
from runners.agent.host import Host
from runners.agent.loop import Agent
from runners.agent.version import agent_version
from runners.engines.listed import ENGINES_FILE, BadEngineList, read_engines

CANNOT_START = 1

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    options = parse_options(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        agents = join(options) if options.command == "join" else [_agent(home, options) for home in _homes(options)]
    except (HomeInUse, NotJoined, BadEngineList, ControlError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return CANNOT_START
    host = Host(agents)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: host.ask_to_stop())
    return host.run()


def _homes(options: argparse.Namespace) -> list[NodeHome]:
    homes = [NodeHome(path) for path in options.home or [default_home()]]
    for home in homes:
        home.acquire()
    return homes


def _agent(home: NodeHome, options: argparse.Namespace) -> Agent:
    read_engines(home.root / ENGINES_FILE)  # a list that can't be used is told before the node takes work
    return Agent(home, home.credentials(), options.models, options.measure, agent_version())


def parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="inference-lab-node", description="Makes this machine a node of a lab.")
    commands = parser.add_subparsers(dest="command", required=True)
    join_command = commands.add_parser("join", help="join a lab with a token from its operator, then run")
    join_command.add_argument("url", metavar="URL", help="the lab's address, such as https://lab.example.org")
    join_command.add_argument("--token", required=True, help="the join token (works once, within minutes)")
    join_command.add_argument("--only-join", action="store_true", help="leave running it to a later `run`")
    run_command = commands.add_parser("run", help="run nodes that have joined")
    for command in (join_command, run_command):
        command.add_argument(
            "--home", type=Path, action="append", help="where a node keeps its state; run: once for each node"
        )
        command.add_argument("--models", type=Path, default=models.default_models_dir(), help="where model files lie")
        command.add_argument("--measure", action="store_true", help="measure the machine's ceilings again")
    options = parser.parse_args(argv)
    if options.command == "join" and len(options.home or []) > 1:
        parser.error("argument --home: one node joins at a time; `run` takes many")
    return options


def default_home() -> Path:
    return Path(os.environ.get("LAB_NODE_HOME") or models.lab_home() / "node")


def join(options: argparse.Namespace) -> list[Agent]:
    """Spends the token and keeps the credentials it gives; the agent to be run. Raises ControlError."""
    (home,) = _homes(options)
    version = agent_version()
    credentials = ControlPlane(options.url.rstrip("/"), version=version).join(options.token, detect(), version)
    home.save_credentials(credentials)
    log.info("joined %s as node %s (%s)", options.url, credentials.node, credentials.kind)
    return [] if options.only_join else [_agent(home, options)]


if __name__ == "__main__":
    raise SystemExit(main())
