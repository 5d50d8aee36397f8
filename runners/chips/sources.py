"""Where the figures of a record come from, and how far that is to be trusted."""

from __future__ import annotations

from typing import Literal

from runners.chips.figures import Record, Text

Confidence = Literal["high", "medium", "low", "recall", "speculative"]


class FigureSource(Record):
    """`field` is a figure's dotted path, that of a table which shares one source, or `*` for all that have none.

    Confidence `recall` means that no stored source was found; `speculative`, that the figure stands in for one that
    nobody has disclosed.
    """

    field: str
    source: Text
    confidence: Confidence
    note: str = ""


class Remark(Record):
    """What is known beside the figures: a measurement, a conflict of sources, a doubtful page."""

    about: Text
    text: Text
    source: Text
    confidence: Confidence
