"""One chip of a record whose figures are sums over a system of them."""

from __future__ import annotations

from runners.chips.record import ChipRecord


def one_chip(record: ChipRecord) -> ChipRecord:
    """The record of one of its chips: rates and memory shared out evenly. A record that says not how many chips its
    figures are of is one chip itself; what is of one chip in every record (link, power, price) stays."""
    chips = record.system.chips if record.system is not None else None
    if not chips or chips == 1:
        return record
    memory = record.memory

    def share(figure: float | None) -> float | None:
        return None if figure is None else figure / chips

    def whole(figure: int | None) -> int | None:
        return None if figure is None else figure // chips

    return record.model_copy(update={
        "dense_tflops": {name: share(rate) for name, rate in record.dense_tflops.items()},
        "memory": memory.model_copy(update={
            "capacity_bytes": whole(memory.capacity_bytes), "sram_bytes": whole(memory.sram_bytes),
            "bandwidth_bytes_per_s": share(memory.bandwidth_bytes_per_s),
            "sram_bandwidth_bytes_per_s": share(memory.sram_bandwidth_bytes_per_s),
        }),
    })  # fmt: skip
