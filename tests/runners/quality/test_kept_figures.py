"""Figures that are kept beside the models, and what makes them others."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.quality.kept import FOLDER, KeptFigures
from runners.quality_figures import QualityFacts

FACTS = QualityFacts(method={"windows": 8}).model_dump(mode="json")
KEY = {"model": "abc", "weights": "int8"}


def test_what_was_kept_is_read_again_under_the_same_key_alone(tmp_path: Path) -> None:
    KeptFigures(tmp_path, KEY, "r1").keep(FACTS)
    assert KeptFigures(tmp_path, dict(reversed(KEY.items())), "r1").read() == FACTS
    assert KeptFigures(tmp_path, KEY | {"weights": "int4"}, "r1").read() is None
    assert KeptFigures(tmp_path, KEY, "r2").read() is None


@pytest.mark.parametrize("revision", [None, "abc-dirty"])
def test_a_source_without_a_revision_keeps_nothing(tmp_path: Path, revision: str | None) -> None:
    kept = KeptFigures(tmp_path, KEY, revision)
    kept.keep(FACTS)
    assert kept.read() is None and not (tmp_path / FOLDER).exists()


@pytest.mark.parametrize("held", ["", "{", "[]", '{"cached": "what"}'])
def test_a_damaged_file_counts_as_none(tmp_path: Path, held: str) -> None:
    kept = KeptFigures(tmp_path, KEY, "r1")
    kept.keep(FACTS)
    (file,) = (tmp_path / FOLDER).iterdir()
    file.write_text(held)
    assert kept.read() is None
