"""How an experiment's document runs on a system of the catalog: which chip it names, and which placement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runners.chips import ChipRecord

OF_UNLIKE = (
    ("Prompts on the one, answers on the other", "prefill_decode", ("prefill", "decode")),
    ("Attention on the one, MLP or experts on the other", "attention_ffn", ("attention", "ffn")),
)


@dataclass(frozen=True)
class Way:
    """`text` is a part of a document."""

    title: str
    text: str


def ways_of(record: ChipRecord, record_of: Callable[[str], ChipRecord | None]) -> list[Way]:
    """Of a system of like chips its own placement; of two unlike parts each kind of disaggregation over their chips.
    None for a single chip. `record_of` gives a part's record, or None where the catalog has none."""
    parts = record.system.parts if record.system else ()
    if len(parts) == 2:
        pools = [(part.chip_id, part.count * chips_in(record_of(part.chip_id))) for part in parts]
        return [Way(title, _disaggregated(kind, roles, pools)) for title, kind, roles in OF_UNLIKE]
    chips = chips_in(record)
    if len(parts) > 1 or chips < 2:
        return []
    return [
        Way("One engine, on the fewest of its chips that hold the model", _plain(record, "tensor_parallel: auto")),
        Way("An engine on every chip, each of which holds the model", _plain(record, f"replicas: {chips}")),
    ]


def chips_in(record: ChipRecord | None) -> int:
    """How many chips a placement may take of it: those of a system, or the one that it is."""
    return (record.system.chips or 1) if record is not None and record.system else 1


def _plain(record: ChipRecord, placement: str) -> str:
    return f"chip: {record.chip_id}\nplacement: {{{placement}}}\n"


def _disaggregated(kind: str, roles: tuple[str, ...], pools: list[tuple[str, int]]) -> str:
    lines = [f"    {role}: {{chip: {chip}, count: {count}}}" for role, (chip, count) in zip(roles, pools, strict=True)]
    return "\n".join(["placement:", "  disaggregate:", f"    kind: {kind}", *lines, ""])
