"""What a run is given when a node claims it: the current records of the chips that its placement names, the links that
the node states between them, and its price. Frozen with the run from then on."""

from __future__ import annotations

from experiments.topologies import links_between, offer_of
from hardware.models import Chip, Node, NodeKind
from hardware.selectors import current_chips
from runners.spec import RunSpec


def with_node(spec: RunSpec, node: Node) -> tuple[RunSpec, Chip | None]:
    """The spec for this node, and the chip that its attempt is filed under. Of a measured node the chip is the one that
    it was registered with, if any; a chip that has left the catalog since is left out, and the node says so."""
    price = node.usd_per_hour if spec.cost.usd_per_hour == "node" else spec.cost.usd_per_hour
    main, found = node.chip, {}
    if node.kind == NodeKind.MODELLED:
        own = node.chip.chip_id if node.chip else ""
        asked = own if spec.chip_id == "any" else spec.chip_id
        found = {chip.chip_id: chip for chip in current_chips().filter(chip_id__in=spec.placement.chips(asked))}
        main = found.get(spec.placement.main_chip(asked))
    frozen = {
        "chip": main.record if main else None,
        "chips": {chip_id: chip.record for chip_id, chip in sorted(found.items())},
        "links": links_between(tuple(found), offer_of(node).links),
        "usd_per_hour": price,
    }
    return spec.model_copy(update=frozen), main
