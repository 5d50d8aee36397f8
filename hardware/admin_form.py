"""What an operator fills in to register a node, checked by the rules that every other way in has too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django import forms
from django.core.exceptions import ValidationError

from hardware.errors import HardwareError
from hardware.json_input import TypedJSON
from hardware.labels import check_labels
from hardware.models import Chip, Node, NodeKind
from hardware.pools import LINK, POOL, UNSTATED, check_links, check_pools, offers_of
from hardware.selectors import current_chips
from hardware.services.registration import free_slug
from labsite.accounts.models import Project, Role, User
from labsite.accounts.permissions import projects_of
from runners.plain_text import NAME_RULE, is_name


class NodeForm(forms.ModelForm):  # type: ignore[type-arg]
    """`person` is set on a subclass for each request: he registers nodes in projects where he is an operator."""

    person: User

    class Meta:
        model = Node
        fields = ("name", "project", "kind", "chip", "pools", "links", "labels", "usd_per_hour")
        field_classes = {"pools": TypedJSON, "links": TypedJSON, "labels": TypedJSON}
        help_texts = {
            "project": "A node without a project serves every project.",
            "chip": "What a modelled node models. A measured one detects its own; name it to be chosen by chip.",
            "pools": (
                f"Chips that a modelled node offers beside its own: [{POOL}]. The chip any is every chip of the "
                f"catalog. Of its own chip there are {UNSTATED:,} where no pool says how many."
            ),
            "links": f"What joins chips of a modelled node, one direction of one chip: [{LINK}].",
            "labels": 'By these experiments choose nodes: {"rack": "a"}.',
            "usd_per_hour": "US dollars for one hour of the whole node; empty where unknown.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        project = self.fields["project"]
        if isinstance(project, forms.ModelChoiceField):
            project.queryset = self._projects()
            # only a superuser gives a node to everybody
            project.required = not self.person.is_superuser
        chip = self.fields["chip"]
        if isinstance(chip, forms.ModelChoiceField):
            chip.queryset = current_chips() | Chip.objects.filter(nodes=self.instance.pk)
        if "usd_per_hour" in self.fields:
            self.fields["usd_per_hour"].widget.attrs["min"] = 0

    def _projects(self) -> Any:
        return Project.objects.filter(pk__in=projects_of(self.person, Role.OPERATOR))

    # An empty field of JSON is read as None.
    def clean_labels(self) -> dict[str, str]:
        return _checked(lambda: check_labels(self.cleaned_data["labels"] or {}))

    def clean_pools(self) -> list[dict[str, Any]]:
        known = set(current_chips().values_list("chip_id", flat=True))
        return _checked(lambda: check_pools(self.cleaned_data["pools"] or [], known))

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not is_name(name):
            raise ValidationError(f"not a name that can be read (allowed: {NAME_RULE})")
        return name

    def clean_usd_per_hour(self) -> float | None:
        price: float | None = self.cleaned_data["usd_per_hour"]
        if price is not None and price < 0:
            raise ValidationError("a price is 0 or more")
        return price

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        kind = cleaned.get("kind", self.instance.kind)
        if kind == NodeKind.MODELLED and not cleaned.get("chip") and "chip" not in self.errors:
            self.add_error("chip", "a modelled node needs the chip that it models")
        self._clean_links(cleaned, kind)
        if self.instance.pk is None and cleaned.get("name"):
            try:
                self.instance.slug = free_slug(cleaned["name"])
            except HardwareError as error:
                self.add_error("name", error.message)
        return cleaned

    def _clean_links(self, cleaned: dict[str, Any], kind: str) -> None:
        """They join chips that the node offers, so chip and pools must be right already."""
        chip, pools, links = cleaned.get("chip"), cleaned.get("pools"), cleaned.get("links") or []
        if kind == NodeKind.MEASURED:
            for name in ("pools", "links"):
                if cleaned.get(name):
                    self.add_error(name, "a measured node has the chip that is in it, and offers no other")
        elif pools is not None and (chip or pools) and "links" in cleaned:
            try:
                known = set(current_chips().values_list("chip_id", flat=True))
                cleaned["links"] = check_links(links, offers_of(chip.chip_id if chip else "", pools), known)
            except HardwareError as error:
                self.add_error("links", _told(error))


Checked = TypeVar("Checked")


def _checked(check: Callable[[], Checked]) -> Checked:
    try:
        return check()
    except HardwareError as error:
        raise ValidationError(_told(error)) from error


def _told(error: HardwareError) -> str:
    allowed = error.allowed if isinstance(error.allowed, str) else ", ".join(map(str, error.allowed))
    return f"{error.field}: {error.message} (allowed: {allowed})"
