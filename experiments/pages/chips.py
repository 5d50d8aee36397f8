"""The chip catalog: a table of all chips, and one chip with its roofline, its figures, its claims and its versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from experiments.api.chips import ChipQuery, find_chips
from experiments.chip_claims import claims_of
from experiments.chip_facts import figure_of, groups_of
from experiments.chip_ways import ways_of
from experiments.figures.roofline import roofline_figure
from experiments.pages.access import person
from experiments.pages.listing import Asked, ask, list_context, take
from experiments.selectors import readable_runs
from experiments.shipped import examples
from hardware.models import Chip
from hardware.selectors import current_chips, nodes_visible_to, offers_chip
from runners.chips import ChipRecord, Format, NotModellable, band_of, record_for_run

USES_SHOWN = 50
NODES_SHOWN = 50
STATUSES = ("shipping", "announced", "claimed", "retired")
COLUMNS = (
    ("name", "Chip", False),
    ("vendor", "Vendor", False),
    ("year", "Year", True),
    ("capacity_bytes", "Memory", True),
    ("bandwidth_bytes_per_s", "Bandwidth", True),
    ("bf16", "bf16", True),
    ("tdp_w", "Power", True),
    ("usd_per_hour", "$ per hour", True),
)
CELLS = ("memory.capacity_bytes", "memory.bandwidth_bytes_per_s", "dense_tflops.bf16", "tdp_w", "usd_per_hour")


@dataclass(frozen=True)
class Column:
    """`address` sorts by it, the other way round where that is the present order, which `order` tells."""

    label: str
    is_figure: bool
    address: str
    order: str


@login_required
def chip_list(request: HttpRequest) -> HttpResponse:
    (chips, following), asked = take(ask(ChipQuery, request), find_chips)
    named = current_chips()
    context = {
        "section": "chips",
        "rows": [_row(chip) for chip in chips],
        "columns": [_column(asked, *column) for column in COLUMNS],
        "vendors": sorted(set(named.values_list("vendor", flat=True))),
        "kinds": sorted(set(named.values_list("kind", flat=True))),
        "formats": get_args(Format),
        "statuses": STATUSES,
        **list_context(asked, following),
    }
    return render(request, "experiments/chips.html", context)


@login_required
def show_chip(request: HttpRequest, chip_id: str) -> HttpResponse:
    user, chip = person(request), _chip_or_404(chip_id, request.GET.get("version", ""))
    record = ChipRecord.model_validate(chip.record)
    drawn, refusal = _modelled_as(record)
    # As the chip of its attempt, or as that of one of its pools.
    ran_on = Q(attempts__chip__chip_id=chip.chip_id) | Q(spec__chips__has_key=chip.chip_id)
    used = readable_runs(user).filter(ran_on)
    uses = used.values("experiment_id", "experiment__name").annotate(runs=Count("pk", distinct=True), last=Max("pk"))
    context = {
        "section": "chips",
        "chip": chip,
        "record": record,
        "groups": groups_of(record),
        "claims": claims_of(record),
        "roofline": roofline_figure(drawn) if drawn else None,
        "band": band_of(drawn) if drawn else None,
        "refusal": refusal,
        "ways": ways_of(record, _record_of),
        "examples": [one for one in examples() if chip.chip_id in one.chips],
        "versions": Chip.objects.filter(chip_id=chip.chip_id).select_related("edited_by").order_by("-version"),
        "uses": uses.order_by("-last")[:USES_SHOWN],
        "nodes": nodes_visible_to(user).filter(offers_chip(chip.chip_id))[:NODES_SHOWN],
    }
    return render(request, "experiments/chip.html", context)


def _modelled_as(record: ChipRecord) -> tuple[ChipRecord | None, NotModellable | None]:
    """The record as a run has it, on stand-ins only where it can't do without; and why there is none, or what it
    takes to have it."""
    try:
        return record_for_run(record, allow_speculative=False), None
    except NotModellable as first:
        try:
            return record_for_run(record, allow_speculative=True), first
        except NotModellable as second:
            return None, second


def _record_of(chip_id: str) -> ChipRecord | None:
    chip = current_chips().filter(chip_id=chip_id).first()
    return ChipRecord.model_validate(chip.record) if chip else None


def _row(chip: Chip) -> dict[str, Any]:
    record = ChipRecord.model_validate(chip.record)
    native = [name for name in get_args(Format) if record.dense_tflops.get(name) is not None]
    return {"chip": chip, "record": record, "figures": [figure_of(record, path) for path in CELLS], "formats": native}


def _column(asked: Asked[ChipQuery], name: str, label: str, is_figure: bool) -> Column:
    present = asked.query.sort
    order = {name: "ascending", f"-{name}": "descending"}.get(present, "")
    # a figure's largest come first
    turned = f"-{name}" if order == "ascending" or (is_figure and order != "descending") else name
    return Column(label, is_figure, asked.address(sort=turned), order)


def _chip_or_404(chip_id: str, version: str) -> Chip:
    """The version that the address names, else the current one."""
    versions = Chip.objects.filter(chip_id=chip_id).select_related("edited_by")
    asked = {"version": int(version)} if version.isdecimal() and len(version) < 10 else {"current": True}
    chip = versions.filter(**asked).first()
    if chip is None:
        raise Http404
    return chip
