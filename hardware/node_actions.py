"""What an operator does to a node, on its page and in the admin: each action with what follows from it.

Who operates the node is for the caller to ask (hardware.selectors.nodes_operated_by).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hardware import services
from hardware.models import Node
from hardware.selectors import live_run_id
from labsite.accounts.permissions import Person


@dataclass(frozen=True)
class NodeAction:
    """`act` does it to one node, for a person; what it returns is a join token to tell. Raises HardwareError."""

    name: str
    title: str
    consequence: str
    act: Callable[[Node, Person], str | None]


def _drain(node: Node, by: Person) -> None:
    services.drain(node, by=by)


def _resume(node: Node, by: Person) -> None:
    services.resume(node, busy=live_run_id(node) is not None, by=by)


def _retire(node: Node, by: Person) -> None:
    services.retire(node, by=by)


def _rotate(node: Node, by: Person) -> str:
    return services.rotate(node, by=by)


def _issue(node: Node, by: Person) -> str:
    return services.issue_join_token(node, by=by)


ACTIONS = {
    action.name: action
    for action in (
        NodeAction("drain", "Drain", "They finish the run they have and take no other until they are resumed.", _drain),
        NodeAction("resume", "Resume", "They take runs again.", _resume),
        NodeAction(
            "retire",
            "Retire",
            "For good: their credentials are void, their agents stop, and a run under way goes to another node."
            " Their results stay.",
            _retire,
        ),
        NodeAction(
            "rotate",
            "Rotate credentials of",
            "Their credentials are void, their agents stop with the run they have, and each must join again with the"
            " command shown next.",
            _rotate,
        ),
        NodeAction(
            "issue_join_token",
            "Show a join command for",
            "An agent that joins with it takes the place of the one that is there; earlier unused commands are void.",
            _issue,
        ),
    )
}


def join_command(address: str, token: str) -> str:
    """What to run on the machine that is to join the lab at that address."""
    return f"inference-lab-node join {address.rstrip('/')} --token {token}"
