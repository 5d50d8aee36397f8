"""The sections of the form on which a chip is edited: which figures stand where, and how each is typed.

Paths are those of the chip record. What a figure may be is for the record to say, not for the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from runners.chips import ChipRecord, Format

Kind = Literal["text", "long", "number", "whole", "choice", "flag", "list", "pairs", "parts"]
"""How a value is typed: `list` as lines, `pairs` as lines of `name = number`, `parts` as lines of `count x chip_id`."""


@dataclass(frozen=True)
class Entry:
    path: str
    label: str
    kind: Kind = "number"
    help: str = ""
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the form's field."""
        return self.path.replace(".", "__")


@dataclass(frozen=True)
class Section:
    title: str
    entries: tuple[Entry, ...]
    about: str = ""


@dataclass(frozen=True)
class Rows:
    """A list of the record: one line of the form for each entry, and empty ones to add more (most to a new record)."""

    path: str
    title: str
    entries: tuple[Entry, ...]
    about: str
    empty: int
    empty_at_first: int

    def count(self, record: Mapping[str, Any]) -> int:
        """Lines on the form."""
        return len(record.get(self.path) or ()) + (self.empty if record else self.empty_at_first)


def _choices(field: str) -> tuple[str, ...]:
    return get_args(ChipRecord.model_fields[field].annotation)


CONFIDENCE = ("high", "medium", "low", "recall")
SECTIONS = (
    Section(
        "What it is",
        (
            Entry("chip_id", "Chip id", "text", "never changes"),
            Entry("name", "Name", "text"),
            Entry("vendor", "Vendor", "text"),
            Entry("kind", "Kind", "choice", choices=_choices("kind")),
            Entry("year", "Year", "whole"),
            Entry("status", "Status", "choice", choices=_choices("status")),
            Entry("tier", "Tier", "choice", choices=_choices("tier")),
            Entry("figures_of", "Figures are of", "choice", choices=_choices("figures_of")),
            Entry("speculative", "Speculative", "flag", "a figure that every step needs is not disclosed"),
            Entry("architectures", "Runs only", "list", "empty: any model; or the line transformer"),
            Entry("notes", "Notes", "long"),
        ),
    ),
    Section(
        "Dense rates, in TFLOP/s",
        tuple(Entry(f"dense_tflops.{name}", name) for name in get_args(Format)),
        "Never with sparsity; empty where the format has no units of its own or the rate is not published.",
    ),
    Section(
        "Formats",
        (
            Entry("supported_formats", "Supported", "list", "one in each line"),
            Entry("unsupported_formats", "Not supported", "list", "one in each line"),
            Entry("results_names", "Names in published results", "list", "one in each line"),
        ),
    ),
    Section(
        "Memory",
        (
            Entry("memory.type", "Type", "text"),
            Entry("memory.capacity_bytes", "Capacity, bytes", "whole"),
            Entry("memory.bandwidth_bytes_per_s", "Bandwidth, bytes/s"),
            Entry("memory.sram_bytes", "SRAM, bytes", "whole"),
            Entry("memory.sram_bandwidth_bytes_per_s", "SRAM bandwidth, bytes/s"),
        ),
    ),
    Section(
        "Links",
        (
            Entry("interconnect.bytes_per_s_per_chip", "Scale-up, bytes/s", help="of one chip, in one direction"),
            Entry("interconnect.domain_chips", "Chips within reach", "whole"),
            Entry("interconnect.latency_s", "Hop, s"),
        ),
    ),
    Section(
        "Power and price",
        (
            Entry("tdp_w", "Power of a chip, W"),
            Entry("system_w", "Power of its system, W"),
            Entry("usd_per_hour", "Rent of a chip, USD/h"),
            Entry("usd_purchase", "Purchase, USD"),
            Entry("ownership.usd_per_hour_hyperscaler", "Owned by a hyperscaler, USD/h"),
            Entry("ownership.usd_per_hour_neocloud", "Owned by a neocloud, USD/h"),
            Entry("ownership.all_in_w", "Power with its share of the rest, W"),
        ),
    ),
    Section(
        "System",
        (
            Entry("system.chips", "Chips in all", "whole"),
            Entry("system.parts", "Parts", "parts", "a line for each: 72 x gb300"),
            Entry("system.link.bytes_per_s", "Link between parts, bytes/s"),
            Entry("system.link.latency_s", "Hop between parts, s"),
        ),
        "Only where the figures are of a system.",
    ),
    Section(
        "What is reached of it",
        (
            Entry("efficiency.memory_fraction", "Of the bandwidth"),
            Entry("efficiency.kv_read_fraction", "Of the bandwidth while reading KV"),
            Entry("efficiency.link_fraction", "Of the link"),
            Entry("efficiency.gemm_fraction", "Of the rates", "pairs", "a line for each: bf16 = 0.79"),
            Entry(
                "efficiency.per_layer_overhead_s", "Overhead of a layer, s", "pairs", "a line for each: vLLM = 7.7e-5"
            ),
        ),
        "Where a calibration starts from.",
    ),
    Section(
        "Stand-ins for what is not disclosed",
        (
            Entry("speculation.figures", "Figures", "pairs", "a line for each: memory.capacity_bytes = 2.88e11"),
            Entry("speculation.low_x", "At least, times"),
            Entry("speculation.high_x", "At most, times"),
            Entry("speculation.basis", "Taken from", "text"),
        ),
        "Used only where an experiment allows it.",
    ),
)
ROWS = (
    Rows(
        "sources",
        "Sources",
        (
            Entry("field", "Figure", "text"),
            Entry("source", "Source", "text"),
            Entry("confidence", "Confidence", "choice", choices=CONFIDENCE),
            Entry("note", "Note", "text"),
        ),
        "Of a figure's path, of a table that shares one (memory), or * for all that have none.",
        empty=3,
        empty_at_first=8,
    ),
    Rows(
        "claims",
        "Claims",
        (
            Entry("claim", "Claim", "text"),
            Entry("figure", "Figure"),
            Entry("unit", "Unit", "text"),
            Entry("metric", "Metric", "choice",
                  choices=("tokens_per_s_per_user", "output_tokens_per_s", "petaflops", "times_baseline", "other")),
            Entry("conditions", "Conditions", "text"),
            Entry("source", "Source", "text"),
            Entry("test.model", "Tested with the shape", "text"),
            Entry("test.chips", "On chips", "whole"),
            Entry("test.weights", "Weights", "text"),
            Entry("test.users", "Users", "whole"),
            Entry("test.memory", "Weights lie in", "text", "main or sram"),
        ),
        "Kept apart from the figures: claims are tested, never calculated with.",
        empty=1,
        empty_at_first=2,
    ),
    Rows(
        "remarks",
        "Remarks",
        (
            Entry("about", "About", "text"),
            Entry("text", "Text", "long"),
            Entry("source", "Source", "text"),
            Entry("confidence", "Confidence", "choice", choices=CONFIDENCE),
        ),
        "What is known beside the figures.",
        empty=1,
        empty_at_first=2,
    ),
)  # fmt: skip
