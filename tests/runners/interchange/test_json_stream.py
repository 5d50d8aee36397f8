"""A JSON document is found its parts in, whatever the pieces it is read in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.interchange import json_stream
from runners.interchange.errors import BadFile
from runners.interchange.json_stream import JsonFile

SCALARS = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(alphabet='ab"\\{}[],: \n\u00fc\U0001f600', max_size=12)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(TEXTS, VALUES, max_size=6), st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
def test_parts_have_the_values_that_the_whole_document_has(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    document: dict[str, object],
    piece: int,
    indent: int | None,
    ascii_: bool,
) -> None:
    monkeypatch.setattr(json_stream, "PIECE_BYTES", piece)
    path = tmp_path / "document.json"
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=ascii_), encoding="utf-8")
    file = JsonFile(path)
    members = file.members(file.root())
    assert {name: file.value(part) for name, part in members.items()} == document
    for name, part in members.items():
        if part.is_array:
            assert list(file.values(part)) == document[name]
            assert [file.value(one) for one in file.elements(part)] == document[name]
    assert file.follows(file.root()) == ""


@pytest.mark.parametrize(
    "text", ['{"a" 1}', '{"a": 1,}', '{"a": 1 "b": 2}', "{1: 2}", '{"a": }', '{"a": "x', '{"a": [1']
)
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "document.json"
    path.write_text(text)
    file = JsonFile(path)
    with pytest.raises(BadFile):
        for part in file.members(file.root()).values():
            file.value(part)


def test_a_part_that_is_too_large_is_refused_before_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_PART_BYTES", 10_000)
    monkeypatch.setattr(json_stream, "PIECE_BYTES", 1_000)
    path = tmp_path / "document.json"
    path.write_text('{"a": "' + "x" * 50_000 + '", "b": [1]}')
    file = JsonFile(path)
    members = file.members(file.root())
    assert list(file.values(members["b"])) == [1]
    with pytest.raises(BadFile, match="larger"):
        file.value(members["a"])
