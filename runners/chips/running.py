"""The record that a run is modelled with: what is disclosed, and stand-ins only where the experiment allows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.chips.record import ChipRecord


class NotModellable(ValueError):
    """A record that no run can be modelled with as asked; trying again would change nothing."""

    retry = False

    def __init__(self, chip_id: str, field: str, message: str, allowed: str) -> None:
        super().__init__(f"{chip_id}: {message}; allowed: {allowed}")
        self.chip_id = chip_id
        self.field = field
        self.message = message
        self.allowed = allowed


def record_for_run(record: ChipRecord, allow_speculative: bool) -> ChipRecord:
    """The record itself, or under `allow_speculative` one whose undisclosed figures have their stand-ins.

    Raises NotModellable: a system of unlike chips, an undisclosed figure without leave to speculate or without a
    stand-in.
    """
    if record.system is not None and record.system.is_mixed:
        parts = ", ".join(f"{part.count} x {part.chip_id}" for part in record.system.parts)
        raise NotModellable(
            record.chip_id, "chip", f"is a system of unlike chips ({parts}), and no step runs on their sum",
            "one of its parts as the chip",
        )  # fmt: skip
    missing = record.undisclosed()
    if missing and not allow_speculative:
        raise NotModellable(
            record.chip_id, "allow_speculative", f"its vendor has not disclosed {', '.join(missing)}",
            "allow_speculative: true, with the result as a band, or another chip",
        )  # fmt: skip
    if not allow_speculative or record.speculation is None:
        return _complete(record)
    return _complete(_with_stand_ins(record))


def in_sram(record: ChipRecord) -> ChipRecord:
    """The record of a chip that keeps weights and KV cache in its SRAM, and uses its slower memory for neither.

    Raises NotModellable where size or bandwidth of the SRAM are not known.
    """
    memory = record.memory
    if memory.sram_bytes is None or memory.sram_bandwidth_bytes_per_s is None:
        raise NotModellable(record.chip_id, "memory", "its SRAM's size or bandwidth is not known", "its main memory")
    sram = {"capacity_bytes": memory.sram_bytes, "bandwidth_bytes_per_s": memory.sram_bandwidth_bytes_per_s}
    return record.model_copy(update={"memory": memory.model_copy(update=sram)})


def band_of(record: ChipRecord) -> dict[str, Any] | None:
    """What a run on stand-ins must say: their paths, the band as factors, and what they were taken from."""
    fields = [entry.field for entry in record.sources if entry.confidence == "speculative"]
    if not fields or record.speculation is None:
        return None
    about = record.speculation
    return {"fields": fields, "low_x": about.low_x, "high_x": about.high_x, "basis": about.basis}


def run_facts(record: ChipRecord) -> dict[str, Any]:
    """What a run reports of the record it was modelled with: what its figures are of, and its stand-ins if any."""
    band = band_of(record)
    return {"figures_of": record.figures_of} | ({"speculative": band} if band else {})


def refuse_architecture(record: ChipRecord, shape: Mapping[str, Any]) -> None:
    """Raises NotModellable for a model that a chip of one architecture can't run: layers that are not attention."""
    layers, attending = shape.get("layers"), shape.get("attention_layers") or shape.get("layers")
    if "transformer" in record.architectures and attending != layers:
        raise NotModellable(
            record.chip_id, "model", f"runs transformers only, and {attending} of this model's {layers} layers attend",
            "a model with attention in every layer",
        )  # fmt: skip


def _complete(record: ChipRecord) -> ChipRecord:
    missing = record.undisclosed()
    if missing:
        raise NotModellable(
            record.chip_id, "chip", f"nobody has disclosed {', '.join(missing)}, and the record has no stand-in",
            "another chip",
        )  # fmt: skip
    return record


def _with_stand_ins(record: ChipRecord) -> ChipRecord:
    """Only where the record itself states no figure: a stand-in never takes the place of what is disclosed."""
    about = record.speculation
    if about is None:
        return record
    data = record.model_dump(mode="json")
    used = {path: value for path, value in about.figures.items() if _put(data, path, value)}
    shown = [path for path in used if not path.startswith("system.")]
    data["sources"] += [{"field": path, "source": about.basis, "confidence": "speculative"} for path in shown]
    data["speculative"] = bool(shown)
    return ChipRecord.model_validate(data)


def _put(data: dict[str, Any], path: str, value: float) -> bool:
    *tables, last = path.split(".")
    here = data
    for table in tables:
        here = here[table]
    if here.get(last) is not None:
        return False
    here[last] = int(value) if last in ("capacity_bytes", "sram_bytes", "domain_chips") else value
    return True
