"""The form on which a chip is edited: by section, checked as a record, each edit a version."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from hardware.chip_form import form_for
from hardware.models import Chip
from hardware.services import edit_chip, load_catalog
from labsite.accounts.models import AuditEntry, Membership, Project, Role, User

pytestmark = pytest.mark.django_db
ADD = reverse("admin:hardware_chip_add")


def page_of(chip: Chip) -> str:
    return reverse("admin:hardware_chip_change", args=[chip.pk])


@pytest.fixture
def superuser() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def root(superuser: User) -> Client:
    client = Client()
    client.force_login(superuser)
    return client


@pytest.fixture
def h100() -> Chip:
    load_catalog()
    return Chip.objects.get(chip_id="h100-sxm")


def typed(chip: Chip, **changes: str) -> dict[str, str]:
    """What a browser sends of the chip's form, with some fields typed over; None unticks."""
    form = form_for(chip)(instance=chip)
    sent: dict[str, Any] = {bound.html_name: bound.value() for bound in form}
    sent = {name: "on" if value is True else value for name, value in sent.items() if value is not None}
    return {name: str(value) for name, value in {**sent, **changes}.items() if value is not False}


def test_every_chip_of_the_catalog_goes_through_the_form_unchanged(superuser: User) -> None:
    for chip in load_catalog():
        form = form_for(chip)(typed(chip), instance=chip)
        assert form.is_valid(), (chip.chip_id, form.errors)
        assert edit_chip(chip, form.cleaned_data["record_data"], by=superuser) == chip, chip.chip_id


def test_the_form_has_sections_and_no_raw_json(root: Client, h100: Chip) -> None:
    page = root.get(page_of(h100)).content.decode()
    for title in ("What it is", "Dense rates", "Memory", "Links", "Power and price", "Sources", "Claims"):
        assert title in page
    assert 'name="memory__capacity_bytes" value="80000000000"' in page
    assert "<pre>" not in page


def test_an_edit_is_a_new_version_with_its_editor(root: Client, superuser: User, h100: Chip) -> None:
    response = root.post(page_of(h100), typed(h100, tdp_w="650", _continue="1"))
    made = Chip.objects.get(chip_id="h100-sxm", current=True)
    assert response["Location"] == page_of(made)
    assert (made.version, made.record["tdp_w"], made.edited_by) == (2, 650, superuser)
    h100.refresh_from_db()
    assert (h100.current, h100.record["tdp_w"]) == (False, 700)
    assert AuditEntry.objects.get(action="chip.edit").detail["changed"] == ["tdp_w"]
    old = root.get(page_of(h100)).content.decode()
    assert "<pre>" in old and 'name="tdp_w"' not in old


def test_a_figure_in_another_unit_is_told_at_its_field(root: Client, h100: Chip) -> None:
    page = root.post(page_of(h100), typed(h100, memory__bandwidth_bytes_per_s="3.35", year="1900"))
    errors = page.context["adminform"].form.errors
    assert set(errors) == {"memory__bandwidth_bytes_per_s", "year"}
    assert "3.35 is not plausible in bytes/s; allowed: 1e+09 to 1e+17 bytes/s" in page.content.decode()
    assert Chip.objects.filter(chip_id="h100-sxm").count() == 1


def test_a_fault_in_a_list_is_told_at_its_line_however_many_lines_before_it_are_emptied(
    root: Client, h100: Chip
) -> None:
    gone = {f"remarks__0__{name}": "" for name in ("about", "text", "source")}
    page = root.post(page_of(h100), typed(h100, **gone, remarks__1__text="x" * 2500))
    assert set(page.context["adminform"].form.errors) == {"remarks__1__text"}


def test_a_figure_without_a_source_is_refused(root: Client, h100: Chip) -> None:
    star = next(number for number, entry in enumerate(h100.record["sources"]) if entry["field"] == "*")
    gone = {f"sources__{star}__{name}": "" for name in ("field", "source", "note")}
    page = root.post(page_of(h100), typed(h100, **gone)).content.decode()
    assert "no source for tdp_w" in page


@pytest.mark.parametrize(
    ("field", "text"),
    [("speculation__figures", "power"), ("system__parts", "many h100"), ("efficiency__gemm_fraction", "bf16: 1")],
)
def test_lines_that_are_no_pairs_are_told_with_what_is_allowed(root: Client, h100: Chip, field: str, text: str) -> None:
    page = root.post(page_of(h100), typed(h100, **{field: text}))
    assert set(page.context["adminform"].form.errors) == {field}
    assert "allowed: lines of" in page.content.decode()


def test_a_chip_is_added_once(root: Client) -> None:
    sent = {
        "chip_id": "mine", "name": "Mine", "vendor": "Me", "kind": "asic", "year": "2026", "status": "announced",
        "tier": "extra", "figures_of": "chip", "dense_tflops__bf16": "900", "memory__type": "HBM4",
        "memory__capacity_bytes": "96e9", "memory__bandwidth_bytes_per_s": "4e12",
        "sources__0__field": "*", "sources__0__source": "our data sheet", "sources__0__confidence": "high",
    }  # fmt: skip
    for number in range(1, 8):
        sent[f"sources__{number}__confidence"] = "high"
    assert root.get(ADD).status_code == 200
    assert root.post(ADD, sent).status_code == 302
    made = Chip.objects.get(chip_id="mine")
    assert (made.origin, made.version, made.record["memory"]["capacity_bytes"]) == ("admin", 1, 96_000_000_000)
    again = root.post(ADD, sent)
    assert "is in the catalog already" in str(again.context["adminform"].form.errors)
    assert Chip.objects.count() == 1


def test_an_edit_of_an_old_version_leads_to_the_current_one(root: Client, superuser: User, h100: Chip) -> None:
    made = edit_chip(h100, {**h100.record, "tdp_w": 650}, by=superuser)
    response = root.post(page_of(h100), typed(h100, tdp_w="640"), follow=True)
    assert response.redirect_chain == [(page_of(made), 302)]
    assert "has changed meanwhile" in response.content.decode()
    assert Chip.objects.filter(chip_id="h100-sxm").count() == 2


def test_an_operator_looks_and_changes_nothing(h100: Chip) -> None:
    operator = User.objects.create_user("operator")
    project = Project.objects.create(name="One", slug="one")
    Membership.objects.create(user=operator, project=project, role=Role.OPERATOR)
    client = Client()
    client.force_login(operator)
    assert "HBM3" in client.get(page_of(h100)).content.decode()
    assert client.post(page_of(h100), typed(h100, tdp_w="650")).status_code == 403
    assert client.get(ADD).status_code == 403
