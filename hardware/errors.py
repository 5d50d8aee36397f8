"""What can be wrong with a request about nodes: said with the field and what is allowed, and whether to retry."""

from __future__ import annotations

from typing import Any

from runners.protocol import HEADER


class HardwareError(Exception):
    """A request about hardware is refused."""

    retry = False

    def __init__(self, field: str, message: str, allowed: Any = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message
        self.allowed = allowed


class InvalidChip(HardwareError):
    """Data that are no chip record: `faults` are (dotted field, what is wrong and what is allowed), of all of them."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        field, message = faults[0]
        super().__init__(field, message)
        self.faults = faults


class ChipExists(HardwareError):
    def __init__(self, chip_id: str) -> None:
        super().__init__("chip_id", f"{chip_id!r} is in the catalog already", "an id of its own; or edit that chip")


class ChipChanged(HardwareError):
    """Somebody else made a new version meanwhile; the edit may be made again on that one."""

    retry = True

    def __init__(self, chip_id: str, current: int | None) -> None:
        now = f"version {current}" if current else "gone"
        super().__init__("version", f"{chip_id} has changed meanwhile: the current one is {now}", "an edit of that one")


class JoinRefused(HardwareError):
    """The join token opens nothing: unknown, used, expired, or its node is retired."""

    def __init__(self) -> None:
        super().__init__(
            "token",
            "this join token is unknown, used or expired",
            "a new one: an operator gets it on the node's page in the admin",
        )


class WrongProtocol(HardwareError):
    """The agent is of another version than the lab, and the two would misread each other."""

    def __init__(self, spoken: str, agent: str, ours: int) -> None:
        who = f"the node's agent ({agent})" if agent else "the node's agent"
        super().__init__(
            HEADER,
            f"{who} speaks node protocol {spoken}, this lab speaks {ours}: install the lab's version of inference-lab "
            "on the node and start its agent again",
            ours,
        )


class BrokerUnavailable(HardwareError):
    """The broker did not answer, so nothing was changed; the same request may succeed later."""

    retry = True

    def __init__(self, reason: str) -> None:
        super().__init__("", f"the message broker does not answer: {reason}")


class UnknownNodeToken(HardwareError):
    """The agent's token is no longer (or never was) that of a node."""

    def __init__(self) -> None:
        super().__init__(
            "Authorization",
            "no node has this token: the node was retired, or its credentials were rotated or replaced by a new join",
        )
