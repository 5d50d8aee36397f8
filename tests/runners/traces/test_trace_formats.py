"""Each published format becomes the rows that it means, and a line that it can't be is told by its number."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.traces.formats import FORMATS, UnknownFormat, detect
from runners.traces.keeping import KeptTrace, keep_trace
from runners.traces.kept_rows import kept_rows
from runners.traces.lines import MAX_LINE_BYTES
from runners.traces.rows import BadLines, TraceError, TraceRow

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def jsonl(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def keep(tmp_path: Path, text: str | bytes, **options: Any) -> tuple[KeptTrace, list[TraceRow]]:
    data = text.encode() if isinstance(text, str) else text
    kept = keep_trace(io.BytesIO(data), tmp_path / "kept.jsonl", **options)
    return kept, list(kept_rows(tmp_path / "kept.jsonl", kept.block_tokens))


def refusal(tmp_path: Path, text: str | bytes, **options: Any) -> str:
    with pytest.raises(BadLines) as refused:
        keep(tmp_path, text, **options)
    return str(refused.value)


def test_mooncake_times_are_milliseconds_and_its_hash_ids_blocks_of_512(tmp_path: Path) -> None:
    text = jsonl(
        {"timestamp": 500, "input_length": 1000, "output_length": 7, "hash_ids": [0, 1]},
        {"timestamp": 3500, "input_length": 513, "output_length": 8, "hash_ids": [0, 2]},
    )
    kept, rows = keep(tmp_path, text)
    assert (kept.format, kept.block_tokens) == ("mooncake", 512)
    assert rows == [TraceRow(0.0, 1000, 7, (0, 1)), TraceRow(3.0, 513, 8, (0, 2))]
    assert kept.summary["sharing_rate"] == {"share": 0.25, "rows_counted": 2}


def test_azure_moments_keep_their_microseconds(tmp_path: Path) -> None:
    kept, rows = keep(tmp_path, AZURE + "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n")
    assert kept.format == "azure"
    assert rows == [TraceRow(0.0, 4808, 10), TraceRow(0.052, 3180, 8)]


def test_burstgpt_leaves_out_requests_that_failed(tmp_path: Path) -> None:
    text = BURST + "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,10,0,10,API log\n118.5,GPT-4,30,2,32,API log\n"
    kept, rows = keep(tmp_path, text)
    assert (kept.format, kept.skipped) == ("burstgpt", 0)
    assert rows == [
        TraceRow(0.0, 472, 18, traffic_class="Conversation log"),
        TraceRow(113.5, 30, 2, traffic_class="API log"),
    ]


def test_bailian_chats_that_go_on_are_one_session(tmp_path: Path) -> None:
    row = {"timestamp": 1.5, "input_length": 20, "output_length": 3, "type": "text", "turn": 1, "hash_ids": [9, 8]}
    text = jsonl(
        {"chat_id": 159, "parent_chat_id": -1, **row},
        {"chat_id": 160, "parent_chat_id": 159, **row, "turn": 2},
        {"chat_id": 161, "parent_chat_id": 160, **row, "turn": 3},
        {"chat_id": 200, "parent_chat_id": -1, **row},
    )
    kept, rows = keep(tmp_path, text)
    assert (kept.format, kept.block_tokens) == ("bailian", 16)
    assert [(row.session, row.turn) for row in rows] == [("159", 1), ("159", 2), ("159", 3), ("200", 1)]
    assert rows[0].traffic_class == "text"
    assert kept.summary["sessions"] == 2


CONVERSATION = {
    "id": "abc",
    "conversations": [
        {"from": "human", "value": "x" * 40},
        {"from": "gpt", "value": "y" * 8},
        {"from": "human", "value": "z" * 20},
        {"from": "gpt", "value": "ü" * 5},
    ],
}


@pytest.mark.parametrize("as_text", [jsonl(CONVERSATION), json.dumps([CONVERSATION], indent=1, ensure_ascii=False)])
def test_sharegpt_answers_are_rows_whose_prompts_hold_all_that_was_said_before(tmp_path: Path, as_text: str) -> None:
    kept, rows = keep(tmp_path, as_text)
    assert kept.format == "sharegpt"
    assert rows == [TraceRow(0, 10, 2, session="abc", turn=1), TraceRow(0, 17, 2, session="abc", turn=2)]
    assert kept.summary["request_rate"] is None


def test_a_sharegpt_array_is_read_piece_by_piece_and_tells_a_wrong_element_by_its_line(tmp_path: Path) -> None:
    many = [{**CONVERSATION, "id": f"é{number}" * 20} for number in range(3000)]
    kept, _ = keep(tmp_path, json.dumps(many, ensure_ascii=False))
    assert kept.rows == 6000
    text = "[\n" + json.dumps(CONVERSATION) + ",\n17,\n" + json.dumps(CONVERSATION) + "\n"
    assert refusal(tmp_path, text) == ("line 3: 17 is no JSON object; line 5: cut short; nothing after it was read")


def test_the_custom_format_is_kept_as_it_is(tmp_path: Path) -> None:
    text = jsonl(
        {"timestamp_s": 0.0, "input_tokens": 5, "output_tokens": 2},
        {"timestamp_s": 1.25, "input_tokens": 40, "output_tokens": 1, "prefix_ids": [3, 4],
         "session": "s", "turn": 2, "class": "batch"},
    )  # fmt: skip
    kept, _ = keep(tmp_path, text, block_tokens=32)
    assert json.loads((tmp_path / "kept.jsonl").read_text().splitlines()[1]) == json.loads(text.splitlines()[1])
    again, _ = keep(tmp_path, (tmp_path / "kept.jsonl").read_bytes(), block_tokens=32)
    assert again.sha256 == kept.sha256 == again.source_sha256


def test_texts_as_prefix_ids_stand_for_the_same_number_each_time(tmp_path: Path) -> None:
    row = {"input_tokens": 600, "output_tokens": 2}
    _, rows = keep(tmp_path, jsonl(row | {"prefix_ids": ["a", "b"]}, row | {"prefix_ids": ["a", "c"]}))
    (a, b), (same, c) = (row.prefix_ids for row in rows)
    assert a == same and len({a, b, c}) == 3


def test_rows_are_kept_in_the_order_of_their_times(tmp_path: Path) -> None:
    text = jsonl(
        *({"timestamp_s": t, "input_tokens": n, "output_tokens": 1} for n, t in ((1, 5), (2, 2), (3, 5), (4, 9)))
    )
    kept, rows = keep(tmp_path, text)
    assert [(row.timestamp_s, row.input_tokens) for row in rows] == [(0, 2), (3, 1), (3, 3), (7, 4)]
    assert kept.summary["duration_s"] == 7


GOOD = {"timestamp_s": 0, "input_tokens": 600, "output_tokens": 2}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "no JSON object"),
        ("[1]", "[1] is no JSON object"),
        (json.dumps(GOOD | {"input_tokens": 0}), "input_tokens: 0; allowed: a whole number from 1"),
        (json.dumps(GOOD | {"input_tokens": 1.5}), "input_tokens: 1.5"),
        (json.dumps(GOOD | {"input_tokens": True}), "input_tokens: True"),
        ('{"timestamp_s": NaN, "input_tokens": 1, "output_tokens": 1}', "a finite number"),
        (json.dumps(GOOD | {"timestamp_s": -1}), "timestamp_s: -1; allowed: a time from 0 on"),
        (json.dumps(GOOD | {"output_tokens": 10**400}), "output_tokens"),
        (json.dumps({"timestamp_s": 1, "input_tokens": 1}), "output_tokens is missing"),
        (json.dumps(GOOD | {"prefix_ids": [1, 2, 3]}), "3 ids; allowed: at most 2"),
        (json.dumps(GOOD | {"prefix_ids": [-1]}), "prefix_ids: -1"),
        (json.dumps(GOOD | {"prefix_ids": 7}), "prefix_ids: 7; allowed: a list"),
        (json.dumps(GOOD | {"class": "\u202e"}), "class"),
        (json.dumps(GOOD | {"turn": -1}), "turn: -1"),
        (json.dumps(GOOD | {"prompt": "hello"}), "unknown key 'prompt'"),
        ('{"a":' * 100_000, "no JSON object"),
        ("\0", "it holds a NUL"),
    ],
)
def test_a_wrong_line_is_told_by_its_number_and_by_what_is_allowed(tmp_path: Path, line: str, words: str) -> None:
    text = json.dumps(GOOD) + "\n\n" + line + "\n"
    told = refusal(tmp_path, text)
    assert told.startswith("line 3: ") and words in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AZURE + "2023-11-16,1\n", "line 2: 2 fields; allowed: 3"),
        (AZURE + "yesterday,1,1\n", "line 2: TIMESTAMP: 'yesterday'; allowed: a moment"),
        (AZURE + '"2023-11-16,1,1\n', "line 2: no CSV"),
        (BURST + "1,m,-2,1,1,x\n", "line 2: Request tokens: '-2'"),
        (b"\xff\xfe\n", "line 1: no UTF-8 text"),
    ],
)
def test_a_wrong_line_of_a_csv_file_is_told_too(tmp_path: Path, text: str | bytes, words: str) -> None:
    name = "burstgpt" if isinstance(text, str) and text.startswith(BURST) else "azure"
    assert words in refusal(tmp_path, text, format_name=name)


def test_a_huge_line_is_passed_over_without_being_held(tmp_path: Path) -> None:
    good = json.dumps(GOOD).encode() + b"\n"
    text = good + b"x" * (2 * MAX_LINE_BYTES) + b"\n" + good
    assert refusal(tmp_path, text) == f"line 2: longer than {MAX_LINE_BYTES} bytes"
    kept, rows = keep(tmp_path, text, skip_bad_lines=True)
    assert (kept.skipped, len(rows)) == (1, 2)


def test_skipped_lines_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    text = "".join(json.dumps(GOOD) + "\nnonsense\n" for _ in range(50))
    kept, rows = keep(tmp_path, text, skip_bad_lines=True)
    assert (kept.skipped, len(kept.bad_lines), len(rows)) == (50, 20, 50)
    assert [bad.line for bad in kept.bad_lines[:2]] == [2, 4]
    assert refusal(tmp_path, text).endswith("; and 30 more")


def test_a_file_of_nonsense_is_given_up_early(tmp_path: Path) -> None:
    assert refusal(tmp_path, "x\n" * 5000, format_name="custom").endswith("and 980 more")


def test_a_trace_without_a_request_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no request in it"):
        keep(tmp_path, AZURE)


@pytest.mark.parametrize("text", ["", "hello", "a,b,c\n1,2,3\n", "{}", '{"x": 1}', "null"])
def test_a_format_that_cannot_be_told_names_those_there_are(text: str) -> None:
    with pytest.raises(UnknownFormat, match="mooncake, azure, burstgpt"):
        detect(text.encode())


def test_a_format_is_told_from_a_first_line_that_is_cut() -> None:
    row = {"timestamp": 0, "input_length": 4_000_000, "output_length": 1, "hash_ids": list(range(20_000))}
    assert detect(json.dumps(row).encode()[:65_536]) == "mooncake"


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(FORMATS), data=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_garbage_in_any_format_is_refused_or_read_and_never_breaks(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes
) -> None:
    header = {"azure": AZURE, "burstgpt": BURST}.get(name, "").encode()
    try:
        kept, rows = keep(tmp_path_factory.mktemp("any"), header + data, format_name=name, skip_bad_lines=True)
    except TraceError:
        return
    assert len(rows) == kept.rows > 0
