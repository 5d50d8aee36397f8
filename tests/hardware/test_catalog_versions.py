"""The chip catalog in the database: written once, versioned by content."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hardware.models import Chip
from hardware.services import load_catalog, register_node
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
