"""Brings the chips of hardware/catalog into the database; an edited record becomes a new version."""

from __future__ import annotations

from pathlib import Path

from django.db import transaction

from hardware.models import Chip, Node
from runners.chips import CATALOG_DIR, ChipRecord
from runners.chips import load_catalog as read_catalog


def load_catalog(directory: Path = CATALOG_DIR) -> list[Chip]:
    """The current chip rows, one per record. Nothing is written where nothing changed. Raises CatalogError."""
    return [_store(record) for record in read_catalog(directory)]


@transaction.atomic
def _store(record: ChipRecord) -> Chip:
    content = record.model_dump(mode="json")
    current = Chip.objects.select_for_update().filter(chip_id=record.chip_id, current=True).first()
    if current and current.record == content:
        return current
    if current:
        Chip.objects.filter(pk=current.pk).update(current=False)
    chip = Chip.objects.create(
        chip_id=record.chip_id,
        version=current.version + 1 if current else 1,
        name=record.name,
        vendor=record.vendor,
        kind=record.kind,
        record=content,
    )
    # Nodes stand for the chip as it is known now; attempts keep the version they were claimed with.
    Node.objects.filter(chip__chip_id=record.chip_id).update(chip=chip)
    return chip
