"""What the form offers to choose from: models, shapes, chips, the nodes that serve the project with their labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from experiments.models import RegisteredModel
from hardware.selectors import current_chips, nodes_serving
from labsite.accounts.models import Project
from runners import shapes
from runners.models import REGISTRY

# A list to choose from; what is not in it can be written into the text.
MOST = 200


@dataclass(frozen=True)
class Offer:
    models: Sequence[str] = ()
    chips: Sequence[str] = ()
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nodes: Sequence[str] = ()
    shapes: Sequence[str] = ()


def offer_to(project: Project | None) -> Offer:
    """Four queries. Without a project, what any project would be offered."""
    chips = list(current_chips().order_by("chip_id").values_list("chip_id", flat=True)[:MOST])
    registered = RegisteredModel.objects.filter(retired_at=None).order_by("name").values_list("name", flat=True)
    models = sorted({*REGISTRY, *registered[:MOST]})[:MOST]
    if project is None:
        return Offer(models, chips, shapes=shapes.names())
    nodes = list(nodes_serving(project.pk).order_by("slug")[:MOST])
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for key, value in node.all_labels().items():
            if value and key != "name":
                labels[key].add(str(value))
    # A chip is chosen by its own field.
    shown = {key: sorted(values) for key, values in sorted(labels.items()) if key != "chip"}
    return Offer(models, chips, shown, [node.slug for node in nodes], shapes.names())
