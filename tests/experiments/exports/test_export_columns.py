"""Which columns an export has, and what may stand in a cell."""

from __future__ import annotations

import csv
import io
import json
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.exports.columns import Column, Kind, columns_of, kind_of, kind_of_values
from experiments.exports.csv_text import FORMULA_STARTS
from experiments.exports.formats import FORMATS, writer_for
from experiments.exports.parquet import GROUP_ROWS
from experiments.exports.runs import column_unit, figures_of
from experiments.exports.table import Table
from runners import events

TEXT = Table("t", (Column("text", Kind.TEXT), Column("number", Kind.FLOAT)), iter(()))


def written(form: str, table: Table, *pieces: list[dict[str, object]]) -> bytes:
    writer = writer_for(form, table)  # type: ignore[arg-type]
    return writer.begin() + b"".join(writer.rows(list(piece)) for piece in pieces) + writer.end()


def test_every_field_of_an_event_is_a_column_with_its_type() -> None:
    kinds = {column.name: column.kind for column in columns_of(events.RequestRecord)}
    assert set(kinds) == set(events.RequestRecord.model_fields) - {"kind"}
    assert kinds["sent_s"] is Kind.FLOAT
    assert kinds["first_token_s"] is Kind.FLOAT
    assert kinds["token_counts"] is Kind.INTS
    assert kinds["status"] is Kind.TEXT
    assert kinds["output_tokens"] is Kind.INT


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [(bool | None, Kind.BOOL), (int | str, Kind.JSON), (dict[str, int], Kind.JSON), (list[str], Kind.JSON),
     (Literal["a"] | None, Kind.TEXT)],
)  # fmt: skip
def test_what_has_no_type_of_its_own_is_json(annotation: object, kind: Kind) -> None:
    assert kind_of(annotation) is kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 2], Kind.INT), ([1, 2.5, None], Kind.FLOAT), (["a", 1], Kind.JSON), ([True, False], Kind.BOOL),
     ([], Kind.JSON), ([True, 1], Kind.JSON)],
)  # fmt: skip
def test_a_setting_has_the_narrowest_type_that_holds_its_values(values: list[object], kind: Kind) -> None:
    assert kind_of_values(values) is kind


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20), st.floats(-1e9, 1e9))
@settings(max_examples=200, deadline=None)
def test_no_text_cell_of_a_csv_is_a_formula_and_no_number_is_changed(text: str, number: float) -> None:
    rows = list(csv.reader(io.StringIO(written("csv", TEXT, [{"text": text, "number": number}]).decode(), newline="")))
    shown, figure = rows[1]
    assert not shown.startswith(FORMULA_STARTS)
    assert shown.removeprefix("'" if text.startswith(FORMULA_STARTS) else "") == text
    assert float(figure) == number


def test_what_was_not_measured_is_empty_and_not_zero() -> None:
    row: dict[str, object] = {"text": None, "number": None}
    assert written("csv", TEXT, [row]).endswith(b"\r\n,\r\n")
    assert json.loads(written("jsonl", TEXT, [row])) == row
    assert pq.read_table(pa.BufferReader(written("parquet", TEXT, [row]))).to_pylist() == [row]


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_without_rows_is_a_whole_file(form: str) -> None:
    content = written(form, TEXT)
    if form == "parquet":
        assert pq.read_table(pa.BufferReader(content)).schema.names == ["text", "number"]
    else:
        assert content == (b"text,number\r\n" if form == "csv" else b"")


def test_parquet_rows_leave_group_by_group() -> None:
    piece: list[dict[str, object]] = [{"text": "a", "number": float(index)} for index in range(2000)]
    writer = writer_for("parquet", TEXT)
    writer.begin()
    sizes = [len(writer.rows(list(piece))) for _ in range(40)]
    assert len([size for size in sizes if size]) == 40 * 2000 // GROUP_ROWS
    assert len(writer.end()) > 0


@pytest.mark.parametrize(
    ("unit", "name"), [("tok/s", "_tok_per_s"), ("$", "_usd"), ("tok/$", "_tok_per_usd"), ("s", "_s"), ("", "")]
)
def test_a_unit_becomes_part_of_the_name(unit: str, name: str) -> None:
    assert column_unit(unit) == name


def test_a_percentile_with_too_few_samples_is_left_out() -> None:
    percentiles = {"p50": {"value": 0.1, "enough": True}, "p99": {"value": 0.9, "enough": False}}
    figures = figures_of({"ttft": {"value": 0.1, "unit": "s", "n": 7, "percentiles": percentiles}})
    assert figures == {"ttft_s": 0.1, "ttft_p50_s": 0.1, "ttft_p99_s": None, "ttft_n": 7}
