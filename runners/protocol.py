"""What a node's agent and its lab say to each other has a number, and both must have the same.

It goes up with every change of the node's REST routes, the worker's messages or the events that the other side, as it
was before, would misread. The agent sends it with each request; the lab refuses another than its own before it reads
the body, which may mean something else by then. A request without it comes from an agent of the first number.
"""

from __future__ import annotations

NODE_PROTOCOL = 3
FIRST = 1
HEADER = "Lab-Node-Protocol"
STATUS = 426
"""HTTP's "Upgrade Required": the same request from an agent of the lab's version would be taken."""
