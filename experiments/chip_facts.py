"""A chip's record as lines for a person: each figure with its unit, its source, and how far that is to be trusted.

Nothing is computed from a figure here but its prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hardware.chip_sections import SECTIONS
from runners.chips import ChipRecord, FigureSource
from runners.display import digits

PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6))
SMALL = (("m", 1e-3), ("µ", 1e-6), ("n", 1e-9))
TRUST = {
    "high": "a source of the maker or a measurement",
    "medium": "a good source, or worked out from one",
    "low": "a doubtful source, or an assumption",
    "recall": "as commonly quoted; no stored source",
    "speculative": "stands in for what is not disclosed",
}
UNITS = (
    ("usd_per_hour", "$/h"),
    ("usd_purchase", "$"),
    ("bytes_per_s", "B/s"),
    ("bytes", "B"),
    ("overhead_s", "s"),
    ("latency_s", "s"),
    ("_w", "W"),
)
"""The unit of a figure whose path has this in it, the first that fits; others are plain numbers."""


@dataclass(frozen=True)
class Figure:
    label: str
    value: str
    source: FigureSource | None

    @property
    def confidence(self) -> str:
        return self.source.confidence if self.source else ""

    @property
    def why(self) -> str:
        """The mark's words: how far it is trusted, and where it is from."""
        if self.source is None:
            return "not disclosed"
        return f"{self.confidence}: {TRUST[self.confidence]}. {self.source.source}"


@dataclass(frozen=True)
class Group:
    title: str
    about: str
    figures: tuple[Figure, ...]


def groups_of(record: ChipRecord) -> list[Group]:
    """The figures that the record states, by the sections of its form; empty sections are left out."""
    groups = []
    for section in SECTIONS:
        title, _, unit = section.title.partition(", in ")
        figures = [figure_of(record, path, label) for path, label in _paths(record, section.title)]
        if figures:
            groups.append(Group(title, section.about if unit else "", tuple(figures)))
    return groups


def figure_of(record: ChipRecord, path: str, label: str = "") -> Figure:
    value = record.figure(path)
    if value is None:
        return Figure(label, "–", None)
    return Figure(label, with_unit(path, value), record.source_of(path))


def with_unit(path: str, value: float) -> str:
    """`3.35 TB/s`, `80 GB`, `989 TFLOP/s`, `10 µs`, `700 W`."""
    if path.startswith("dense_tflops."):
        return prefixed(value * 1e12, "OP/s" if "int" in path else "FLOP/s")
    unit = next((unit for part, unit in UNITS if part in path), "")
    return prefixed(value, unit) if unit in ("B", "B/s", "s") else f"{digits(value)}\u00a0{unit}".strip()


def prefixed(value: float, unit: str) -> str:
    scales = SMALL if unit == "s" else PREFIXES
    for letter, size in scales:
        if value >= size:
            return f"{digits(value / size)}\u00a0{letter}{unit}"
    return f"{digits(value)}\u00a0{unit}"


def _paths(record: ChipRecord, title: str) -> Iterator[tuple[str, str]]:
    stated = record.figures()
    for section in SECTIONS:
        for entry in section.entries if section.title == title else ():
            label = entry.label.partition(",")[0]
            for path in stated:
                if path == entry.path:
                    yield path, label
                elif path.startswith(f"{entry.path}.") and entry.kind == "pairs":
                    yield path, f"{label}, {path.removeprefix(entry.path + '.')}"
