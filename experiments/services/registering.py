"""Registering a model with the lab, and retiring it.

Who operates nodes of some project may do it: what is registered here is what nodes will fetch and load. A name stays
with its content for good, so that results never point to another model than they were measured with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from experiments.errors import ExperimentError
from experiments.models import RegisteredModel
from labsite.accounts.audit import record
from labsite.accounts.models import Role, User
from labsite.accounts.permissions import AccessDenied, has_role_anywhere
from runners.models import REGISTRY, ModelEntry


class ModelExists(ExperimentError):
    """The name is taken by another model."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"model {name!r} {why}; register this one under another name")
        self.name = name


class ModelShipped(ExperimentError):
    """A model that the lab ships can't be retired."""

    def __init__(self, name: str) -> None:
        super().__init__(f"model {name!r} is shipped with the lab and can't be retired")


def register_model(user: User, described: Mapping[str, Any]) -> RegisteredModel:
    """Registers what `described` (a ModelEntry as a mapping) says; the same content under its own name again gives the
    same model, and takes a retired one back.

    Raises AccessDenied, BadEntry with every fault, ModelExists.
    """
    _require_operator(user, "registering a model")
    entry = ModelEntry.from_dict(described)
    if entry.name in REGISTRY:
        raise ModelExists(entry.name, "is shipped with the lab")
    try:
        with transaction.atomic():
            model = RegisteredModel.objects.create(name=entry.name, entry=entry.to_dict(), created_by=user)
            record(user, "model.register", model, sha256=entry.sha256, source=str(entry.source))
    except IntegrityError:
        return _register_again(user, entry)
    return model


@transaction.atomic
def retire_model(user: User, name: str) -> None:
    """New experiments can't name it any more; runs that have it go on. Retiring it again changes nothing.

    Raises AccessDenied, ModelShipped, RegisteredModel.DoesNotExist.
    """
    _require_operator(user, "retiring a model")
    if name in REGISTRY:
        raise ModelShipped(name)
    model = RegisteredModel.objects.select_for_update().get(name=name)
    if model.retired_at is None:
        model.retired_at = timezone.now()
        model.save(update_fields=["retired_at"])
        record(user, "model.retire", model)


@transaction.atomic
def _register_again(user: User, entry: ModelEntry) -> RegisteredModel:
    model = RegisteredModel.objects.select_for_update().get(name=entry.name)
    if ModelEntry.from_dict(model.entry).sha256 != entry.sha256:
        retired = " and was retired" if model.retired_at else ""
        raise ModelExists(entry.name, f"is registered with other files{retired}")
    if model.retired_at is not None:
        model.retired_at, model.entry = None, entry.to_dict()
        model.save(update_fields=["retired_at", "entry"])
        record(user, "model.register", model, sha256=entry.sha256, source=str(entry.source), again=True)
    elif model.entry != entry.to_dict():
        raise ModelExists(entry.name, "is registered with the same files but another description")
    return model


def _require_operator(user: User, what: str) -> None:
    if not has_role_anywhere(user, Role.OPERATOR):
        raise AccessDenied(f"{what} needs the role {Role.OPERATOR.label} in some project")
