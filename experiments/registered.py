"""The models that the lab ships, and those that were registered with it. Reads.

Names are the lab's own, not a project's. A retired model takes no new experiments; runs keep the entry they were made
for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from experiments.models import RegisteredModel
from runners.models import REGISTRY, ModelEntry


@dataclass(frozen=True)
class KnownModel:
    """`record` is None for a model that the lab ships."""

    entry: ModelEntry
    record: RegisteredModel | None = None

    @property
    def retired(self) -> bool:
        return self.record is not None and self.record.retired_at is not None


def known_models() -> list[KnownModel]:
    """Every model, retired ones too, by name."""
    registered = RegisteredModel.objects.select_related("created_by").exclude(name__in=REGISTRY)
    found = [KnownModel(ModelEntry.from_dict(record.entry), record) for record in registered]
    return sorted([*map(KnownModel, REGISTRY.values()), *found], key=lambda model: model.entry.name)


def find_known(name: str) -> KnownModel:
    """One model, retired or not. Raises RegisteredModel.DoesNotExist."""
    if name in REGISTRY:
        return KnownModel(REGISTRY[name])
    record = RegisteredModel.objects.select_related("created_by").get(name=name)
    return KnownModel(ModelEntry.from_dict(record.entry), record)


def find_usable(names: Iterable[str]) -> dict[str, ModelEntry]:
    """Those of the named models that an experiment may use now."""
    wanted = set(names)
    registered = RegisteredModel.objects.filter(name__in=wanted, retired_at=None).values_list("name", "entry")
    found = {name: ModelEntry.from_dict(entry) for name, entry in registered}
    return found | {name: REGISTRY[name] for name in wanted if name in REGISTRY}
