"""Where an experiment runs, and how its engines are laid over chips."""

from __future__ import annotations

from typing import Literal

from runners.spec.base import Document


class RouterSpec(Document):
    policy: Literal["round_robin"] = "round_robin"


class PlacementSpec(Document):
    replicas: Literal[1] = 1
    tensor_parallel: Literal[1] = 1
    pipeline_parallel: Literal[1] = 1
    disaggregate: Literal["none"] = "none"
    router: RouterSpec = RouterSpec()
