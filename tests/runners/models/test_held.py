"""What a node tells of the models that it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_entries import CONTENT, local_file

from runners import models
from runners.agent import held
from runners.agent.held import HeldModels


def test_only_a_change_is_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = local_file(tmp_path / "tiny.gguf")
    watched = HeldModels(tmp_path)
    assert watched.news(now=True) == [] and watched.news(now=True) is None
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    models.fetch(entry, tmp_path)
    assert watched.news() is None
    monkeypatch.setattr(held, "LOOK_EVERY_S", 0.0)
    assert watched.news() == [{"name": "tiny", "sha256": entry.sha256}] and watched.news() is None
    (tmp_path / "tiny.gguf").unlink()
    assert watched.news() == []


def test_no_more_are_told_than_a_heartbeat_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    for name in ("one", "two"):
        models.fetch(local_file(tmp_path / "tiny.gguf", name=name), tmp_path)
    monkeypatch.setattr(held, "MOST_TOLD", 1)
    assert [model["name"] for model in HeldModels(tmp_path).news(now=True) or []] == ["one"]
