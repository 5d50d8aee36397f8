"""The chip catalog in the database: written once, versioned by content."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hardware.errors import ChipChanged, ChipExists, InvalidChip
from hardware.models import Chip
from hardware.services import add_chip, edit_chip, load_catalog, register_node
from labsite.accounts.models import AuditEntry, User
from runners.chips import CATALOG_DIR, CatalogError

pytestmark = pytest.mark.django_db


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    shutil.copy(CATALOG_DIR / "h100-sxm.toml", tmp_path)
    return tmp_path


def edit(directory: Path, old: str, new: str) -> None:
    file = directory / "h100-sxm.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_shipped_catalog_loads() -> None:
    chips = load_catalog()
    assert "h100-sxm" in {chip.chip_id for chip in chips}
    assert all(chip.current and chip.version == 1 for chip in chips)


def test_loading_again_changes_nothing(directory: Path) -> None:
    assert load_catalog(directory) == load_catalog(directory)
    assert Chip.objects.count() == 1


def test_an_edited_record_becomes_a_new_version_that_nodes_follow(directory: Path) -> None:
    (first,) = load_catalog(directory)
    node = register_node("model", kind="modelled", chip_id="h100-sxm")
    edit(directory, "tdp_w = 700", "tdp_w = 650")
    (second,) = load_catalog(directory)
    first.refresh_from_db()
    node.refresh_from_db()
    assert (first.version, first.current, first.record["tdp_w"]) == (1, False, 700)
    assert (second.version, second.current, second.record["tdp_w"]) == (2, True, 650)
    assert node.chip == second


def test_a_broken_record_is_named_and_nothing_is_written(directory: Path) -> None:
    edit(directory, "tdp_w = 700", "tdp_w = -1")
    with pytest.raises(CatalogError, match=r"h100-sxm\.toml: tdp_w"):
        load_catalog(directory)
    assert not Chip.objects.exists()


def test_the_whole_catalog_is_loaded_again_with_one_query(django_assert_num_queries: Any) -> None:
    first = load_catalog()
    # the transaction's savepoint and its release, and one query for what is there
    with django_assert_num_queries(3):
        assert load_catalog() == first


# Edits by a person


@pytest.fixture
def editor() -> User:
    return User.objects.create_superuser("root")


def changed(chip: Chip, **figures: Any) -> dict[str, Any]:
    return {**chip.record, **figures}


def test_an_edit_makes_a_version_that_says_whose_it_is(directory: Path, editor: User) -> None:
    (first,) = load_catalog(directory)
    node = register_node("model", kind="modelled", chip_id="h100-sxm")
    second = edit_chip(first, changed(first, tdp_w=650), by=editor)
    first.refresh_from_db()
    node.refresh_from_db()
    assert (second.version, second.current, second.origin, second.edited_by) == (2, True, "admin", editor)
    assert (first.current, first.record["tdp_w"], second.record["tdp_w"]) == (False, 700, 650)
    assert node.chip == second
    entry = AuditEntry.objects.get(action="chip.edit")
    assert (entry.user, entry.detail) == (editor, {"version": 2, "was": 1, "changed": ["tdp_w"]})


def test_an_edit_that_changes_nothing_makes_no_version(directory: Path, editor: User) -> None:
    (first,) = load_catalog(directory)
    assert edit_chip(first, first.record, by=editor) == first
    assert Chip.objects.count() == 1 and not AuditEntry.objects.filter(action="chip.edit").exists()


def test_a_file_never_undoes_an_edit_and_its_new_version_is_kept_beside(directory: Path, editor: User) -> None:
    (first,) = load_catalog(directory)
    mine = edit_chip(first, changed(first, tdp_w=650), by=editor)
    assert load_catalog(directory) == [mine] and Chip.objects.count() == 2
    edit(directory, "tdp_w = 700", "tdp_w = 690")
    assert load_catalog(directory) == [mine]
    of_file = Chip.objects.get(version=3)
    assert (of_file.current, of_file.origin, of_file.record["tdp_w"]) == (False, "catalog", 690)
    assert load_catalog(directory) == [mine] and Chip.objects.count() == 3
    assert edit_chip(mine, changed(mine, tdp_w=640), by=editor).version == 4


def test_an_edit_of_a_version_that_is_no_longer_current_is_refused(directory: Path, editor: User) -> None:
    (first,) = load_catalog(directory)
    edit_chip(first, changed(first, tdp_w=650), by=editor)
    with pytest.raises(ChipChanged, match="the current one is version 2"):
        edit_chip(first, changed(first, tdp_w=640), by=editor)
    assert Chip.objects.count() == 2


def test_every_fault_of_an_edit_is_told_and_nothing_is_written(directory: Path, editor: User) -> None:
    (first,) = load_catalog(directory)
    wrong = changed(first, tdp_w=0.5, year="soon")
    with pytest.raises(InvalidChip) as raised:
        edit_chip(first, wrong, by=editor)
    assert {field for field, _ in raised.value.faults} == {"tdp_w", "year"}
    with pytest.raises(InvalidChip, match="never changes"):
        edit_chip(first, changed(first, chip_id="h101"), by=editor)
    assert Chip.objects.count() == 1


def test_a_chip_that_no_file_has_can_be_added_once(directory: Path, editor: User) -> None:
    (first,) = load_catalog(directory)
    added = add_chip(changed(first, chip_id="mine"), by=editor)
    assert (added.version, added.current, added.origin) == (1, True, "admin")
    with pytest.raises(ChipExists, match="'mine' is in the catalog already"):
        add_chip(changed(first, chip_id="mine"), by=editor)
    assert AuditEntry.objects.filter(action="chip.add", object_name=added.name).count() == 1
