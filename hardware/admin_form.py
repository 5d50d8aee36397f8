"""What an operator fills in to register a node, checked by the rules that every other way in has too."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from hardware.errors import HardwareError
from hardware.labels import check_labels
from hardware.models import Chip, Node, NodeKind
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
        fields = ("name", "project", "kind", "chip", "labels", "usd_per_hour")
        help_texts = {
            "project": "A node without a project serves every project.",
            "chip": "What a modelled node models. A measured one detects its own; name it to be chosen by chip.",
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

    def clean_labels(self) -> dict[str, str]:
        try:
            # an empty field is read as None
            return check_labels(self.cleaned_data["labels"] or {})
        except HardwareError as error:
            raise ValidationError(f"{error.field}: {error.message} (allowed: {error.allowed})") from error

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
        if self.instance.pk is None and cleaned.get("name"):
            try:
                self.instance.slug = free_slug(cleaned["name"])
            except HardwareError as error:
                self.add_error("name", error.message)
        return cleaned
