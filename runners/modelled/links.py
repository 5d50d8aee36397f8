"""What joins chips: what the document says, else what the node states, else the chip's own record.

A chip's record knows the link that scales it up, to chips of its own kind within one domain. Past that, and between
unlike chips, a network is assumed where nobody states a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runners.chips import ChipRecord
from runners.modelled.tuning import link_peaks
from runners.spec import LinkSpec
from runners.spec.run import NodeLink

NETWORK_BYTES_PER_S = 50e9
"""One adapter of 400 Gbit/s for each chip, as in servers of eight GPUs."""
NETWORK_LATENCY_S = 30e-6
TRANSFER_SHARE = 0.8
"""Of a link's rate, what a bulk transfer of KV cache reaches."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction, of one chip. `latency_s` is that of one collective over up to eight chips, of a hop between stages
    or sides, or of a transfer; None is what the calibration has for a collective on the chip."""

    bytes_per_s: float
    latency_s: float | None
    source: str

    def facts(self) -> dict[str, Any]:
        return {"bytes_per_s": self.bytes_per_s, "latency_s": self.latency_s, "source": self.source}


def find_link(one: ChipRecord, other: ChipRecord, asked: LinkSpec, stated: Sequence[NodeLink], within: bool) -> Link:
    """The link between two chips, which may be of one kind; `within`: of one domain of that kind."""
    found = _own_link(one, stated) if within and one.chip_id == other.chip_id else _network(one, other, stated)
    if asked.bytes_per_s is None and asked.latency_s is None:
        return found
    latency_s = found.latency_s if asked.latency_s is None else asked.latency_s
    return Link(asked.bytes_per_s or found.bytes_per_s, latency_s, "the document")


def is_stated(chip_id: str, asked: LinkSpec, stated: Sequence[NodeLink]) -> bool:
    """Whether anybody but the record says what joins chips of that kind."""
    return asked != LinkSpec() or _stated(chip_id, chip_id, stated) is not None


def _own_link(chip: ChipRecord, stated: Sequence[NodeLink]) -> Link:
    link = _stated(chip.chip_id, chip.chip_id, stated)
    if link is not None:
        return link
    has_one = chip.interconnect.bytes_per_s_per_chip is not None
    return Link(link_peaks(chip)[0], None, "the chip's record" if has_one else "assumed: PCIe")


def _network(one: ChipRecord, other: ChipRecord, stated: Sequence[NodeLink]) -> Link:
    link = _stated(one.chip_id, other.chip_id, stated)
    return link or Link(NETWORK_BYTES_PER_S, NETWORK_LATENCY_S, "assumed: a network of 400 Gbit/s for each chip")


def _stated(one: str, other: str, stated: Sequence[NodeLink]) -> Link | None:
    for link in stated:
        if set(link.between) == {one, other}:
            return Link(link.bytes_per_s, link.latency_s, "the node")
    return None
