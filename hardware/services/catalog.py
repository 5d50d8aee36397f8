"""Versions of chip records: from the files of hardware/catalog, and from people who edit them in the admin.

A changed file and an edit both make a new version, and attempts keep the one they were claimed with. A file never
undoes what a person has edited: its new version is kept beside the person's, which stays the current one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import transaction

from hardware.errors import ChipChanged, ChipExists, InvalidChip
from hardware.models import Chip, ChipOrigin, Node
from labsite.accounts.audit import record as record_change
from labsite.accounts.models import User
from runners.chips import CATALOG_DIR, ChipRecord, RecordError, read_record
from runners.chips import load_catalog as read_catalog


@transaction.atomic
def load_catalog(directory: Path = CATALOG_DIR) -> list[Chip]:
    """The current chip rows, one per record of the directory. Nothing is written where no file changed.

    One query where nothing is new. Raises CatalogError.
    """
    records = read_catalog(directory)
    versions: dict[str, list[Chip]] = defaultdict(list)
    for chip in Chip.objects.filter(chip_id__in=[record.chip_id for record in records]).order_by("version"):
        versions[chip.chip_id].append(chip)
    return [_loaded(record, versions[record.chip_id]) for record in records]


def _loaded(record: ChipRecord, versions: list[Chip]) -> Chip:
    """The current version after the file's record has been taken in."""
    current = next((chip for chip in versions if chip.current), None)
    of_file = next((chip for chip in reversed(versions) if chip.origin == ChipOrigin.CATALOG), None)
    if of_file and current and of_file.record == record.model_dump(mode="json"):
        return current
    edited = current is not None and current.origin == ChipOrigin.ADMIN
    made = _add_version(record, versions[-1].version + 1 if versions else 1, current=not edited)
    return current if current is not None and edited else made


@transaction.atomic
def add_chip(data: Mapping[str, Any], *, by: User) -> Chip:
    """A chip that no file has. Raises InvalidChip with every fault, ChipExists."""
    record = _checked(data)
    if Chip.objects.filter(chip_id=record.chip_id).exists():
        raise ChipExists(record.chip_id)
    chip = _add_version(record, 1, by=by)
    record_change(by, "chip.add", chip, version=1)
    return chip


@transaction.atomic
def edit_chip(chip: Chip, data: Mapping[str, Any], *, by: User) -> Chip:
    """The next version, which nodes stand for from now on; the same one where nothing differs.

    `chip` is the version that was edited. Raises InvalidChip with every fault, ChipChanged where it is no longer the
    current one.
    """
    held = Chip.objects.select_for_update().filter(chip_id=chip.chip_id, current=True).first()
    if held is None or held.pk != chip.pk:
        raise ChipChanged(chip.chip_id, held.version if held else None)
    record = _checked(data)
    if record.chip_id != chip.chip_id:
        raise InvalidChip([("chip_id", f"is {record.chip_id!r}; allowed: {chip.chip_id!r}, which never changes")])
    content = record.model_dump(mode="json")
    if content == held.record:
        return held
    changed = sorted(key for key in content.keys() | held.record.keys() if content.get(key) != held.record.get(key))
    last = Chip.objects.filter(chip_id=chip.chip_id).order_by("-version").values_list("version", flat=True)[0]
    made = _add_version(record, last + 1, by=by)
    record_change(by, "chip.edit", made, version=made.version, was=held.version, changed=changed)
    return made


def _checked(data: Mapping[str, Any]) -> ChipRecord:
    try:
        return read_record(data)
    except RecordError as error:
        raise InvalidChip(error.faults) from error


def _add_version(record: ChipRecord, version: int, *, current: bool = True, by: User | None = None) -> Chip:
    if current:
        Chip.objects.filter(chip_id=record.chip_id, current=True).update(current=False)
    chip = Chip.objects.create(
        chip_id=record.chip_id,
        version=version,
        current=current,
        name=record.name,
        vendor=record.vendor,
        kind=record.kind,
        record=record.model_dump(mode="json"),
        origin=ChipOrigin.ADMIN if by else ChipOrigin.CATALOG,
        edited_by=by,
    )
    if current:
        # Nodes stand for the chip as it is known now; attempts keep the version they were claimed with.
        Node.objects.filter(chip__chip_id=record.chip_id).update(chip=chip)
    return chip
