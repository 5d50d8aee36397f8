"""The formats of traces by name, which of them a file is in, and reading it as rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, Protocol, get_args

from runners.traces import csv_rows, json_rows, share_gpt, values
from runners.traces.lines import BOM, read_lines
from runners.traces.rows import BadLine, LineFault, TraceError, TraceRow

FormatName = Literal["mooncake", "azure", "burstgpt", "bailian", "sharegpt", "custom"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
DEFAULT_BLOCK_TOKENS = 512
FIRST_BYTES = 64 * 1024


class UnknownFormat(TraceError):
    """The first line is of no format that we know."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the format can't be told from the first line ({why}); name one of {', '.join(FORMATS)}")


class Rows(Protocol):
    """Reads one file's lines in their order; may remember what came before."""

    def take(self, number: int, line: bytes) -> list[TraceRow]:
        """Raises LineFault."""
        ...


@dataclass(frozen=True)
class Format:
    """`block_tokens` are what a prefix id stands for; None: as the trace's owner says."""

    name: FormatName
    title: str
    block_tokens: int | None
    rows: Callable[[int], Rows]


FORMAT_OF: dict[str, Format] = {
    one.name: one
    for one in (
        Format("mooncake", "Mooncake JSONL", json_rows.MOONCAKE_BLOCK_TOKENS, lambda _: json_rows.MooncakeRows()),
        Format("azure", "Azure LLM CSV", None, lambda _: csv_rows.azure_rows()),
        Format("burstgpt", "BurstGPT CSV", None, lambda _: csv_rows.burst_rows()),
        Format("bailian", "Bailian JSONL", json_rows.BAILIAN_BLOCK_TOKENS, lambda _: json_rows.BailianRows()),
        Format("sharegpt", "ShareGPT conversations", None, lambda _: share_gpt.ShareGptRows()),
        Format("custom", "custom JSONL", None, json_rows.OwnRows),
    )
}


def detect(first: bytes) -> FormatName:
    """The format of a file that begins so. Raises UnknownFormat."""
    if is_array(first):
        return "sharegpt"
    line = first.removeprefix(BOM).lstrip().split(b"\n", 1)[0].strip()
    if not line.startswith(b"{"):
        return _detect_csv(line)
    # The line may be cut: its keys are looked for, it is not read.
    keys = {match.decode() for match in re.findall(rb'"(\w{1,40})"\s*:', line)}
    if {"timestamp", "input_length", "output_length"} <= keys:
        return "bailian" if "chat_id" in keys else "mooncake"
    if {"input_tokens", "output_tokens"} <= keys:
        return "custom"
    if keys & {"conversations", "conversation"}:
        return "sharegpt"
    raise UnknownFormat(f"its keys are {values.shown(sorted(keys))}")


def _detect_csv(line: bytes) -> FormatName:
    try:
        columns = set(csv_rows.split(line)) if line else set()
    except LineFault as fault:
        raise UnknownFormat(str(fault)) from fault
    if set(csv_rows.AZURE_COLUMNS) <= columns:
        return "azure"
    if set(csv_rows.BURST_COLUMNS) <= columns:
        return "burstgpt"
    raise UnknownFormat("it is neither a known CSV header nor a JSON object")


def read_rows(stream: BinaryIO, form: Format, block_tokens: int) -> Iterator[TraceRow | BadLine]:
    """The rows of a file in its own order, with their own times, and a BadLine for each line that gave none. The
    stream must stand at its beginning, and be one that can be set back there."""
    rows = form.rows(block_tokens)
    if isinstance(rows, share_gpt.ShareGptRows) and is_array(first_bytes(stream)):
        yield from share_gpt.read_array(stream, rows)
        return
    for line in read_lines(stream):
        if isinstance(line, BadLine):
            yield line
            continue
        try:
            yield from rows.take(*line)
        except LineFault as fault:
            yield BadLine(line[0], str(fault))


def first_bytes(stream: BinaryIO) -> bytes:
    """What tells the format; the stream stands at its beginning again."""
    first = stream.read(FIRST_BYTES)
    stream.seek(0)
    return first


def is_array(first: bytes) -> bool:
    return first.removeprefix(BOM).lstrip().startswith(b"[")
