"""Engines that nodes offer beside the built-in one: what a run asks of them, and what a document may ask. Pure.

A node says what it offers (hardware.messages.OfferedEngine). A managed engine takes the settings of `engine` that its
command has a place for, an external one none: somebody else has started it. Any other setting is refused by its field,
never dropped. A name that stays beside the built-in engine binds its runs to nodes that offer that engine, so that both
are compared on one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.document import FieldError
from runners.spec import EngineSpec, ExperimentSpec

BUILTIN = "builtin"
IDENTITY = ("kind", "name")
NAMED = 20


@dataclass(frozen=True)
class EngineOffer:
    """One engine of a node. `models` are those that an external one serves; a managed one takes any."""

    kind: str
    name: str
    settings: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()

    def serves(self, asked: EngineDemand) -> bool:
        if self.name != asked.name:
            return False
        if asked.kind == BUILTIN:
            return True
        return self.kind == asked.kind and (self.kind == "managed" or asked.model in self.models)


@dataclass(frozen=True)
class EngineDemand:
    """What a run asks of a node's engines; nothing without a name."""

    kind: str = BUILTIN
    name: str | None = None
    model: str = ""


ANY_ENGINE = EngineDemand()


def offers_of(stored: Iterable[Mapping[str, Any]]) -> tuple[EngineOffer, ...]:
    """A node's engines as they are stored."""
    return tuple(
        EngineOffer(one["kind"], one["name"], frozenset(one["settings"]), frozenset(one["models"])) for one in stored
    )


def demand_of_engine(engine: Mapping[str, Any], model: str) -> EngineDemand:
    """Of a run's engine as it is stored; those of before there were others have no name."""
    return EngineDemand(engine.get("kind", BUILTIN), engine.get("name"), model)


def has_engine(asked: EngineDemand, offers: Sequence[EngineOffer]) -> bool:
    return asked.name is None or any(offer.serves(asked) for offer in offers)


def engine_faults(
    cell: ExperimentSpec, model: str, random_weights: bool, offers: Sequence[EngineOffer]
) -> Iterator[FieldError]:
    """Why no measured node that the document means serves a trial's engine, by all that these offer."""
    engine = cell.engine
    if engine.name is None:
        return
    named = [offer for offer in offers if offer.name == engine.name]
    if not named:
        yield FieldError("engine.name", f"no node that is meant offers an engine {engine.name!r}", _names(offers))
        return
    if engine.kind == BUILTIN:
        return
    of_kind = [offer for offer in named if offer.kind == engine.kind]
    if not of_kind:
        message = f"{engine.name} is no {engine.kind} engine"
        yield FieldError("engine.kind", message, sorted({BUILTIN, *(offer.kind for offer in named)}))
        return
    if random_weights:
        yield FieldError("model", f"{model} is a shape with random weights, which {engine.name} can't load", None)
    serving = [offer for offer in of_kind if engine.kind == "managed" or model in offer.models]
    if not serving:
        models = sorted({one for offer in of_kind for one in offer.models})
        yield FieldError("model", f"{engine.name} does not serve {model}", models)
        return
    yield from _setting_faults(engine, serving)


def _setting_faults(engine: EngineSpec, serving: Sequence[EngineOffer]) -> Iterator[FieldError]:
    """Settings that ask for something and that the engine has no place for."""
    taken = frozenset.intersection(*(offer.settings for offer in serving))
    told = f"{engine.name} takes {', '.join(sorted(taken)) or 'none of these settings'}"
    for key in engine.model_dump(exclude=set(IDENTITY), exclude_defaults=True):
        if key not in taken:
            message = f"is not taken by {engine.kind} engines that have no place for it: {told}"
            yield FieldError(f"engine.{key}", message, "leave it out")


def _names(offers: Sequence[EngineOffer]) -> list[str]:
    return sorted({offer.name for offer in offers})[:NAMED]
