"""The public-domain prose that the project ships for prompts; README.md beside it says where it is from."""

from __future__ import annotations

from importlib.resources import files


def shipped_text() -> str:
    """All of it, as one string of plain English prose and some verse."""
    return (files(__name__) / "alice.txt").read_text(encoding="utf-8")
