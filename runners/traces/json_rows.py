"""Rows of traces published as one JSON object a line: Mooncake's, Bailian's, and our own format."""

from __future__ import annotations

import json
from typing import Any

from runners.traces import values
from runners.traces.lines import as_text
from runners.traces.rows import MAX_CLASS, MAX_SESSION, MAX_TURN, LineFault, TraceRow

MOONCAKE_BLOCK_TOKENS = 512
BAILIAN_BLOCK_TOKENS = 16
NO_PARENT = -1
OWN_KEYS = frozenset({"timestamp_s", "input_tokens", "output_tokens", "prefix_ids", "session", "turn", "class"})


class MooncakeRows:
    """`timestamp` in milliseconds; each of `hash_ids` is a block of 512 tokens, which depends on all before it."""

    def take(self, number: int, line: bytes) -> list[TraceRow]:
        found = values.read_object(as_text(line))
        input_tokens = values.tokens(values.need(found, "input_length"), "input_length")
        return [
            TraceRow(
                values.seconds(values.need(found, "timestamp"), "timestamp", per_second=1000.0),
                input_tokens,
                values.tokens(values.need(found, "output_length"), "output_length"),
                _ids(found.get("hash_ids", []), "hash_ids", input_tokens, MOONCAKE_BLOCK_TOKENS),
            )
        ]


class BailianRows:
    """`timestamp` in seconds; `hash_ids` are blocks of 16 tokens; a `parent_chat_id` other than -1 is the chat that a
    request goes on with, so that a session is known by its first chat. Chats are remembered, one number for each."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def take(self, number: int, line: bytes) -> list[TraceRow]:
        found = values.read_object(as_text(line))
        input_tokens = values.tokens(values.need(found, "input_length"), "input_length")
        kind = found.get("type")
        row = TraceRow(
            values.seconds(values.need(found, "timestamp"), "timestamp"),
            input_tokens,
            values.tokens(values.need(found, "output_length"), "output_length"),
            _ids(found.get("hash_ids", []), "hash_ids", input_tokens, BAILIAN_BLOCK_TOKENS),
            session=self._session(found),
            turn=_turn(found.get("turn")),
            traffic_class=None if kind in (None, "") else values.label(kind, "type", MAX_CLASS),
        )
        return [row]

    def _session(self, found: dict[str, Any]) -> str:
        chat = values.label(values.need(found, "chat_id"), "chat_id", MAX_SESSION)
        parent = values.label(found.get("parent_chat_id", NO_PARENT), "parent_chat_id", MAX_SESSION)
        first = chat if parent == str(NO_PARENT) else self._first.get(parent, parent)
        self._first[chat] = first
        return first


class OwnRows:
    """Our own format, which is also what the lab keeps: `{"timestamp_s", "input_tokens", "output_tokens"}` and, where
    there is more to say, `prefix_ids`, `session`, `turn` and `class`. No other keys."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens

    def take(self, number: int, line: bytes) -> list[TraceRow]:
        found = values.read_object(as_text(line))
        if unknown := sorted(found.keys() - OWN_KEYS):
            raise LineFault(f"unknown key {values.shown(unknown[0])}; allowed: {', '.join(sorted(OWN_KEYS))}")
        input_tokens = values.tokens(values.need(found, "input_tokens"), "input_tokens")
        session, kind = found.get("session"), found.get("class")
        return [
            TraceRow(
                values.seconds(found.get("timestamp_s", 0), "timestamp_s"),
                input_tokens,
                values.tokens(values.need(found, "output_tokens"), "output_tokens"),
                _ids(found.get("prefix_ids", []), "prefix_ids", input_tokens, self._block_tokens),
                session=None if session is None else values.label(session, "session", MAX_SESSION),
                turn=_turn(found.get("turn")),
                traffic_class=None if kind is None else values.label(kind, "class", MAX_CLASS),
            )
        ]


def to_line(row: TraceRow) -> bytes:
    """A row in our own format; what it does not have is left out."""
    more = {"prefix_ids": list(row.prefix_ids), "session": row.session, "turn": row.turn, "class": row.traffic_class}
    found: dict[str, Any] = {
        "timestamp_s": round(row.timestamp_s, 6),
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        **{name: value for name, value in more.items() if value not in (None, [])},
    }
    return json.dumps(found, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _ids(found: Any, name: str, input_tokens: int, block_tokens: int) -> tuple[int, ...]:
    return values.prefix_ids(found, name, -(-input_tokens // block_tokens))


def _turn(found: Any) -> int | None:
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MAX_TURN:
        raise LineFault(f"turn: {values.shown(found)}; allowed: a whole number from 0 to {MAX_TURN}")
    return found
