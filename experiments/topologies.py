"""Whether the chips that a modelled node offers can run a trial as it is placed, and how many of each that takes.

Asks the planner that the node itself plans the run with, so that what is accepted here is not refused there. Whether a
node offers the chips at all is for `experiments.placement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from experiments.chosen_models import ChosenModel
from hardware.models import Node
from hardware.pools import Offers, count_offered
from runners.chips import ChipRecord, NotModellable, record_for_run, refuse_architecture
from runners.document import FieldError
from runners.modelled.shape import ModelShape, ShapeError
from runners.modelled.step_model import CostModelError
from runners.modelled.topology import SystemPlan, plan_for
from runners.spec import ExperimentSpec, NodeLink


class NoTopology(Exception):
    """The chips can't run the trial as it is placed; the fault names the document's field."""

    def __init__(self, fault: FieldError) -> None:
        super().__init__(f"{fault.field}: {fault.message}")
        self.fault = fault


@dataclass(frozen=True)
class Offer:
    """What a modelled node has: its own chip, how many of which chips, and what joins them."""

    chip_id: str
    counts: Offers
    links: tuple[NodeLink, ...] = ()


def offer_of(node: Node) -> Offer:
    links = tuple(NodeLink.model_validate({**link, "between": tuple(link["between"])}) for link in node.links)
    return Offer(node.chip.chip_id if node.chip else "", node.offers(), links)


class Planner:
    """For one look at a plan: `records` are the stored records of the chips, by id."""

    def __init__(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        self._records = records
        self._read: dict[tuple[str, bool], ChipRecord] = {}

    def count_chips(
        self,
        cell: ExperimentSpec,
        chip_id: str,
        model: ChosenModel,
        draft: ChosenModel | None,
        offer: Offer,
        longest: int,
    ) -> dict[str, int]:
        """How many chips of each id it takes. `chip_id` is the document's, or the node's own; `longest` the longest
        prompt and answer together, in tokens. Raises NoTopology."""
        try:
            return dict(self._plan(cell, chip_id, model, draft, offer, longest).chip_counts)
        except NotModellable as error:
            field = _field_of(cell, error)
            raise NoTopology(FieldError(field, f"{error.chip_id}: {error.message}", error.allowed)) from error
        except CostModelError as error:
            raise NoTopology(FieldError(error.field, error.message, error.allowed or None)) from error
        except ShapeError as error:
            raise NoTopology(FieldError("model", str(error), "a model with a whole shape")) from error

    def _plan(
        self,
        cell: ExperimentSpec,
        chip_id: str,
        model: ChosenModel,
        draft: ChosenModel | None,
        offer: Offer,
        longest: int,
    ) -> SystemPlan:
        named = cell.placement.chips(chip_id)
        chips = {one: self._record(one, cell.allow_speculative) for one in named}
        for record in chips.values():
            refuse_architecture(record, model.shape)
        return plan_for(
            chips,
            ModelShape.from_mapping(model.shape),
            cell.engine,
            cell.placement,
            longest,
            links_between(named, offer.links),
            {one: count_offered(offer.counts, one) for one in named},
            chip=chip_id,
            draft=ModelShape.from_mapping(draft.shape) if draft else None,
        )

    def _record(self, chip_id: str, allow_speculative: bool) -> ChipRecord:
        """Raises NotModellable."""
        key = (chip_id, allow_speculative)
        if key not in self._read:
            self._read[key] = record_for_run(_whole(chip_id, self._records[chip_id]), allow_speculative)
        return self._read[key]


def links_between(chips: tuple[str, ...], links: tuple[NodeLink, ...]) -> tuple[NodeLink, ...]:
    """Those whose both ends are among the chips."""
    return tuple(link for link in links if set(link.between) <= set(chips))


def _whole(chip_id: str, stored: Mapping[str, Any]) -> ChipRecord:
    try:
        return ChipRecord.model_validate(stored)
    except ValidationError as error:
        message = f"its stored record has {error.error_count()} faults"
        raise NotModellable(chip_id, "chip", message, "a chip with a whole record") from error


def _field_of(cell: ExperimentSpec, error: NotModellable) -> str:
    """Where the document names the chip, if the fault is the chip's own."""
    pools = cell.placement.disaggregate.pools
    if error.field not in ("chip", "memory"):
        return error.field
    roles = (role for role, pool in pools.items() if pool.chip == error.chip_id)
    return next((f"placement.disaggregate.{role}.chip" for role in roles), "chip")
