"""Changing single values in a document's text: what was asked for is there, and nothing else has moved."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.form.rewrite import REMOVED, Change, apply, rewrite, write
from experiments.shipped import FOLDER
from runners.document import SpecError, TextError, parse_text

TEXT = """\
# What this is for
name: before   # said beside it

workload:
    arrival: {kind: closed, max_concurrency: 8}   # eight users
    num_requests: 20
matrix:
  engine.weights: [bf16, int8]
"""


def test_one_value_changes_and_every_other_character_stays():
    changed = rewrite(TEXT, [Change(("workload", "num_requests"), 99)])
    assert parse_text(changed)["workload"]["num_requests"] == 99
    before, after = TEXT.split(), changed.split()
    assert [word for word in after if word not in before] == ["99"]
    for comment in ("# What this is for", "# said beside it", "# eight users"):
        assert comment in changed


def test_a_key_that_is_not_there_is_added_with_its_parents():
    changed = parse_text(rewrite(TEXT, [Change(("engine", "scheduler", "chunked_prefill"), False)]))
    assert changed["engine"] == {"scheduler": {"chunked_prefill": False}}


def test_a_key_with_dots_in_it_is_one_key():
    changed = parse_text(rewrite(TEXT, [Change(("matrix", "engine.max_num_seqs"), [1, 8])]))
    assert changed["matrix"] == {"engine.weights": ["bf16", "int8"], "engine.max_num_seqs": [1, 8]}


def test_a_key_is_taken_out_and_taking_out_what_is_not_there_changes_nothing():
    assert "name" not in parse_text(rewrite(TEXT, [Change(("name",), REMOVED)]))
    assert rewrite(TEXT, [Change(("slo", "ttft_s"), REMOVED)]) == TEXT


def test_setting_what_is_there_already_gives_the_same_text():
    assert rewrite(TEXT, [Change(("workload", "num_requests"), 20)]) == TEXT


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_an_empty_text_becomes_a_document(text):
    try:
        assert parse_text(rewrite(text, [Change(("name",), "a: #b")])) == {"name": "a: #b"}
    except SpecError:
        assert text.startswith("#")  # a comment alone is no mapping, and is refused as the check refuses it


@pytest.mark.parametrize("text", ["name: [", "a: &x 1\nb: *x\n", "- 1\n", "a: 1\na: 2\n"])
def test_a_text_that_the_document_reader_refuses_is_refused(text):
    with pytest.raises((SpecError, TextError)):
        rewrite(text, [Change(("name",), "x")])


@pytest.mark.parametrize("value", [True, 20.0])
def test_a_value_that_equals_the_old_one_but_for_its_type_is_a_change(value):
    found = parse_text(rewrite(TEXT, [Change(("workload", "num_requests"), value)]))["workload"]["num_requests"]
    assert type(found) is type(value)


def test_json_is_changed_too():
    changed = rewrite('{"name": "x", "repeats": 3}', [Change(("repeats",), 5)])
    assert parse_text(changed) == {"name": "x", "repeats": 5}


@pytest.mark.parametrize("word", ["1e3", "on", "null", "~", "true", "0o17", "1_000", "2026-11-30", "é", " x ", "a\nb"])
def test_words_that_look_like_other_types_stay_words(word):
    assert parse_text(rewrite(TEXT, [Change(("name",), word)]))["name"] == word
    assert parse_text(write({"name": word})) == {"name": word}


@pytest.mark.parametrize("odd", ["\x85", "a\u2028b", "\u2029", "\U00010d3a", "\x7f", "\ufeff"])
def test_characters_that_yaml_takes_for_line_breaks_or_refuses_come_back(odd):
    changed = rewrite(TEXT, [Change(("a",), {odd: odd})])
    assert parse_text(changed)["a"] == {odd: odd}


paths = st.lists(st.sampled_from(["a", "b", "engine.weights", "workload"]), min_size=1, max_size=3).map(tuple)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-4, 4), st.text(max_size=6))
values = st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=3), scalars, max_size=2))
changes = st.builds(Change, paths, st.one_of(values, st.just(REMOVED)))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([TEXT, *(path.read_text() for path in FOLDER.glob("*.yaml"))]), st.lists(changes, max_size=3))
def test_the_text_always_says_what_the_changes_make_of_the_document(text, made):
    wanted = copy.deepcopy(parse_text(text))
    for change in made:
        apply(wanted, change)
    try:
        assert parse_text(rewrite(text, made)) == wanted
    except SpecError:  # text with a character that no document may hold
        assert any(not str(value).isprintable() for value in [change.value for change in made])
