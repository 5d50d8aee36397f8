"""Refuses an agent that speaks another node protocol than this lab, and notes on its node why it is not heard.

The note goes with the first heartbeat that is taken. What the node had under way ends as that of any silent node.
"""

from __future__ import annotations

from django.http import HttpRequest

from hardware.errors import WrongProtocol
from hardware.models import Node
from runners.protocol import FIRST, HEADER, NODE_PROTOCOL

AGENT_LENGTH = 80


def check_protocol(request: HttpRequest, node: Node | None = None) -> None:
    """Raises WrongProtocol. `node` is whose agent asks, where that is known."""
    spoken = request.headers.get(HEADER, str(FIRST))[:AGENT_LENGTH]
    if spoken == str(NODE_PROTOCOL):
        return
    agent = request.headers.get("User-Agent", "")[:AGENT_LENGTH]
    refusal = WrongProtocol(_printable(spoken), _printable(agent), NODE_PROTOCOL)
    if node is not None and node.fault != refusal.message:
        Node.objects.filter(pk=node.pk).update(fault=refusal.message)
    raise refusal


def _printable(text: str) -> str:
    return "".join(one if one.isascii() and one.isprintable() else "?" for one in text)
