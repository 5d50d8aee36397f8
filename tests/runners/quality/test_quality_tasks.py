"""Questions are the same for the same seed, and their checks take right answers in any usual dress and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.quality.tasks import TASKS, questions
from runners.quality.tasks.arithmetic import last_number
from runners.quality.tasks.json_schema import read_person
from runners.quality.tasks.multiple_choice import KINDS, chosen_letter

EVERY = tuple(TASKS)


def test_the_same_seed_asks_the_same_and_another_seed_something_else() -> None:
    one, again, other = (questions(EVERY, seed, 10) for seed in (3, 3, 4))
    assert [q.prompt for q in one] == [q.prompt for q in again] != [q.prompt for q in other]


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    few, many = questions(EVERY, 1, 3), questions(EVERY, 1, 8)
    assert [q.prompt for q in few] == [q.prompt for q in many[:9]]


def test_what_is_expected_is_right() -> None:
    assert all(question.check(question.expected) for question in questions(EVERY, 11, 60))


@given(st.text(max_size=200))
def test_any_text_can_be_checked_and_a_right_answer_to_a_sum_holds_its_number(answer: str) -> None:
    for question in questions(EVERY, 5, 2):
        is_right = question.check(answer)
        assert not is_right or question.task != "arithmetic" or last_number(answer) == question.expected


@given(st.text(alphabet="xyz !?\n\t{}[]\"'", max_size=80))
def test_a_text_without_numbers_letters_and_objects_is_always_wrong(answer: str) -> None:
    assert not any(question.check(answer) for question in questions(EVERY, 6, 3))


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("42", "42"), ("The answer is 42.", "42"), ("6 × 7 = 42", "42"), ("-7", "-7"), ("\u22127", "-7"),
        ("1,024", "1024"), ("042", "42"), ("42.0", "42"), ("42.5", "42.5"), ("-0", "0"), ("none", None),
        ("9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_the_last_number_of_an_answer_is_what_counts(answer: str, number: str | None) -> None:
    assert last_number(answer) == number


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"), ("b)", "B"), ("(B)", "B"), ("B) otter", "B"), ("Answer: B", "B"), ("The answer is B.", "B"),
        ("**B**", "B"), ("otter", "B"), ("Otter.", "B"), ("A horse", None), ("Because", None), ("E", None), ("", None),
    ],
)  # fmt: skip
def test_a_letter_counts_where_it_is_given_as_one(answer: str, letter: str | None) -> None:
    assert chosen_letter(answer, ["horse", "otter", "plum", "iron"]) == letter


def test_no_thing_is_of_two_kinds() -> None:
    things = [thing for kind in KINDS.values() for thing in kind]
    assert len(set(things)) == len(things)


def test_json_counts_in_a_fence_but_not_with_words_around_it_or_more_keys() -> None:
    person = {"name": "Ivo", "age": 30, "city": "Oslo", "job": "pilot"}
    told = json.dumps(person)
    assert read_person(told) == read_person(f"```json\n{told}\n```") is not None
    for wrong in (f"Here it is: {told}", json.dumps(person | {"pet": "cat"}), json.dumps(person | {"age": "30"}), "{}"):
        assert read_person(wrong) is None
