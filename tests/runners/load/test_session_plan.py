"""Conversations and tasks before any is sent: what follows what, and what each prompt holds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from runners.load.plan import make_plan
from runners.load.planned import FollowUp, LoadPlan, PlannedRequest
from runners.load.prompts import SyntheticPrompts
from runners.spec import WorkloadSpec

THREE_TURNS = {"turns": {"dist": "fixed", "count": 3}, "think_time_s": {"dist": "fixed", "value_s": 2.0}}
FOUR_CALLS = {
    "calls": {"dist": "fixed", "count": 4},
    "tool_time_s": {"dist": "fixed", "value_s": 0.5},
    "tool_result_tokens": {"dist": "fixed", "tokens": 7},
}


def plan(seed: int = 1, **changes: Any) -> LoadPlan:
    fields: dict[str, Any] = {
        "kind": "conversation",
        "conversation": THREE_TURNS,
        "arrival": {"kind": "closed", "max_concurrency": 4},
        "input_len": {"dist": "fixed", "tokens": 10},
        "output_len": {"dist": "fixed", "tokens": 5},
        "num_requests": 9,
        "warmup": {"num_requests": 0},
        **changes,
    }
    return make_plan(WorkloadSpec.model_validate(fields), seed, SyntheticPrompts(seed, range(100)))


def answer(request: PlannedRequest) -> tuple[int, ...]:
    return tuple(range(1000, 1000 + request.params.max_tokens))


def play(made: LoadPlan, first: PlannedRequest) -> list[list[PlannedRequest]]:
    """The session's requests turn by turn, each answered with `answer`."""
    turns, now = [], [first]
    while now:
        turns.append(now)
        now = [one.request for request in now for one in made.after(request.number, answer(request))]
    return turns


def test_each_turn_holds_all_before_it_and_its_own_new_tokens() -> None:
    made = plan()
    (first,), (second,), (third,) = play(made, next(made.requests("measured")))
    assert len(first.prompt_ids) == 10
    assert second.prompt_ids[:15] == first.prompt_ids + answer(first) and len(second.prompt_ids) == 25
    assert third.prompt_ids[:30] == second.prompt_ids + answer(second) and len(third.prompt_ids) == 40
    assert [one.turn for one in (first, second, third)] == [1, 2, 3]
    assert [one.is_last for one in (first, second, third)] == [False, False, True]
    assert {(one.session, one.session_requests) for one in (first, second, third)} == {("session-0", 3)}


def test_the_next_turn_goes_when_the_person_has_thought() -> None:
    made = plan()
    first = next(made.requests("measured"))
    (follow,) = made.after(first.number, answer(first))
    assert follow.delay_s == 2.0


@pytest.mark.parametrize(
    ("pause", "most"),
    [
        ({"dist": "exponential", "mean_s": 3.0, "max_s": 5.0}, 5.0),
        ({"dist": "lognormal", "median_s": 3.0, "sigma": 2.0, "max_s": 9.0}, 9.0),
        ({"dist": "uniform", "min_s": 1.0, "max_s": 4.0}, 4.0),
    ],
)
def test_pauses_are_drawn_within_their_bounds_and_the_same_for_one_seed(pause: dict[str, Any], most: float) -> None:
    def delays() -> list[float]:
        made = plan(conversation=THREE_TURNS | {"think_time_s": pause}, num_requests=60)
        return [made.after(one.number, None)[0].delay_s for one in made.requests("measured")]

    assert delays() == delays()
    assert len(set(delays())) > 10 and min(delays()) >= 0 and max(delays()) <= most


def test_sessions_begin_until_they_have_the_requests_asked_for_and_the_last_is_whole() -> None:
    assert len(list(plan(num_requests=9).requests("measured"))) == 3
    assert len(list(plan(num_requests=10).requests("measured"))) == 4
    endless = plan(num_requests=None, duration_s=5.0).requests("measured")
    assert len(list(itertools.islice(endless, 50))) == 50


def test_requests_are_numbered_session_by_session_warm_up_first_whatever_is_driven() -> None:
    made = plan(warmup={"num_requests": 4})
    assert [one.number for one in made.requests("measured")] == [6, 9, 12]
    warm = list(made.requests("warmup"))
    assert [one.number for one in warm] == [0, 3] and {one.phase for one in warm} == {"warmup"}
    assert {request.request_id for turn in play(made, warm[1]) for request in turn} == {
        "warmup-3",
        "warmup-4",
        "warmup-5",
    }


def test_the_same_seed_gives_the_same_sessions_however_they_interleave() -> None:
    def one_after_another(made: LoadPlan) -> list[PlannedRequest]:
        return [request for first in made.requests("measured") for turn in play(made, first) for request in turn]

    def side_by_side(made: LoadPlan) -> list[PlannedRequest]:
        sent, now = [], list(made.requests("measured"))
        while now:
            sent += now
            now = [one.request for request in reversed(now) for one in made.after(request.number, answer(request))]
        return sorted(sent, key=lambda request: request.number)

    changes = {"conversation": THREE_TURNS | {"turns": {"dist": "uniform", "min_count": 1, "max_count": 5}}}
    assert one_after_another(plan(**changes)) == side_by_side(plan(**changes))
    assert one_after_another(plan(1, **changes)) != one_after_another(plan(2, **changes))


def test_an_answer_whose_ids_are_unknown_has_others_of_its_length_in_its_place() -> None:
    made = plan()
    first = next(made.requests("measured"))
    (follow,) = made.after(first.number, None)
    assert len(follow.request.prompt_ids) == 25 and follow.request.prompt_ids[:10] == first.prompt_ids


def test_of_a_session_that_is_abandoned_nothing_follows() -> None:
    made = plan()
    first = next(made.requests("measured"))
    made.abandon(first.number)
    assert made.after(first.number, answer(first)) == ()


def test_a_tool_loop_appends_each_answer_and_the_tools_result() -> None:
    made = plan(kind="agent", agent=FOUR_CALLS)
    turns = play(made, next(made.requests("measured")))
    assert [len(request.prompt_ids) for (request,) in turns] == [10, 22, 34, 46]
    (first,), (second,) = turns[:2]
    assert second.prompt_ids[:15] == first.prompt_ids + answer(first)


def test_branches_share_what_came_before_and_the_join_holds_them_all() -> None:
    made = plan(kind="agent", agent=FOUR_CALLS | {"fan_out": 3})
    turns = play(made, next(made.requests("measured")))
    assert [len(turn) for turn in turns] == [1, 3, 3, 1]
    before = turns[0][0].prompt_ids + answer(turns[0][0])
    assert {request.prompt_ids[:15] for request in turns[1]} == {before}
    assert len({request.prompt_ids for request in turns[1]}) == 3
    joined = before
    for request in turns[1]:
        joined += request.prompt_ids[15:] + answer(request)
    assert all(request.prompt_ids[: len(joined)] == joined for request in turns[2])
    assert turns[3][0].session_requests == 8 and turns[3][0].is_last


def test_the_join_waits_for_every_branch_and_holds_them_in_their_own_order() -> None:
    def last_prompt(order: list[int]) -> tuple[int, ...]:
        made = plan(kind="agent", agent=FOUR_CALLS | {"fan_out": 3, "calls": {"dist": "fixed", "count": 3}})
        first = next(made.requests("measured"))
        branches = [one.request for one in made.after(first.number, answer(first))]
        followed: list[FollowUp] = []
        for place in order:
            assert not followed
            followed = list(made.after(branches[place].number, answer(branches[place])))
        return followed[0].request.prompt_ids

    assert last_prompt([0, 1, 2]) == last_prompt([2, 0, 1])


def test_no_join_follows_when_a_branch_failed() -> None:
    made = plan(kind="agent", agent=FOUR_CALLS | {"fan_out": 2})
    first = next(made.requests("measured"))
    one, other = (follow.request for follow in made.after(first.number, answer(first)))
    made.abandon(one.number)
    assert made.after(other.number, answer(other)) == ()


def test_thinking_comes_before_the_answer_and_is_left_out_of_later_prompts_unless_asked_for() -> None:
    thinking = {"factor": 2.0, "effort": 1.5}
    for in_history, length in ((False, 25), (True, 40)):
        made = plan(thinking=thinking | {"in_history": in_history})
        first = next(made.requests("measured"))
        assert (first.thinking_tokens, first.params.max_tokens) == (15, 20)
        (follow,) = made.after(first.number, answer(first))
        assert len(follow.request.prompt_ids) == length
        kept = answer(first) if in_history else answer(first)[15:]
        assert follow.request.prompt_ids[10 : 10 + len(kept)] == kept


def test_a_session_belongs_to_one_class_whole() -> None:
    classes = [
        {"name": "chat", "share": 0.5, "priority": -1, "output_len": {"dist": "fixed", "tokens": 3}},
        {"name": "batch", "share": 0.5, "priority": 5, "input_len": {"dist": "fixed", "tokens": 20}},
    ]
    made = plan(classes=classes, num_requests=60)
    seen = set()
    for first in made.requests("measured"):
        requests = [request for turn in play(made, first) for request in turn]
        (name,) = {request.traffic_class for request in requests}
        expected = (-1, 3, 10) if name == "chat" else (5, 5, 20)
        assert {(one.priority, one.params.max_tokens) for one in requests} == {expected[:2]}
        assert len(first.prompt_ids) == expected[2]
        seen.add(name)
    assert seen == {"chat", "batch"}


def test_sessions_that_share_a_prefix_keep_it_through_all_turns_and_the_rest_have_as_long_ones_of_their_own() -> None:
    made = plan(shared_prefix={"groups": 1, "prefix_tokens": 16, "share": 0.5}, num_requests=90)
    heads = []
    for first in made.requests("measured"):
        (head,) = {request.prompt_ids[:16] for turn in play(made, first) for request in turn}
        heads.append(head)
    shared = max(set(heads), key=heads.count)
    assert 5 < heads.count(shared) < 25 and len(set(heads)) == len(heads) - heads.count(shared) + 1


def test_the_longest_prompt_and_sequence_are_those_that_the_plan_comes_to() -> None:
    for changes in (
        {"thinking": {"factor": 2.0}},
        {"thinking": {"factor": 2.0, "in_history": True}, "shared_prefix": {"groups": 2, "prefix_tokens": 9}},
        {"kind": "agent", "agent": FOUR_CALLS | {"fan_out": 3}},
        {"kind": "agent", "agent": {"calls": {"dist": "fixed", "count": 1}}},
    ):
        made = plan(**changes)
        workload = made.workload  # type: ignore[attr-defined]
        requests = [one for turn in play(made, next(made.requests("measured"))) for one in turn]
        assert max(len(one.prompt_ids) for one in requests) == workload.longest_prompt
        assert max(len(one.prompt_ids) + one.params.max_tokens for one in requests) == workload.longest
        assert requests[0].session_requests == len(requests) == workload.most_requests
