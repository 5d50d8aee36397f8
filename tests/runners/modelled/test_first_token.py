"""First tokens of closed loops: terms that are known give figures, and the figures give them back."""

from __future__ import annotations

import dataclasses
import math

import pytest
from published_rows import CLOSED

from runners.modelled import first_token
from runners.modelled.cases import Case, CaseReader
from runners.modelled.facts import ChipTable
from runners.modelled.first_token import (
    SLOWNESSES,
    Waves,
    first_token_figure,
    fit_first_tokens,
    replay_waves,
    slowness_of,
)
from runners.modelled.model_shapes import ModelShapes

READER = CaseReader(ChipTable.load("catalog"), ModelShapes.load())
TRUE = {("fixed", ""): math.log(0.05 / 0.08), ("slow", ""): math.log(2.0 / 1.5), ("burst", ""): math.log(0.2 / 0.1)}


def case(number: int, **fields: object) -> Case:
    return READER.read({**CLOSED, "id": f"c{number}", **fields})


def waves(first_s: float, rest_s: float) -> list[Waves]:
    """Those of a loop whose times are in proportion to how slow prefills are."""
    return [Waves(first_s * slow, rest_s * slow) for slow in SLOWNESSES]


def made_up(count: int) -> tuple[list[Case], list[list[Waves]]]:
    """Cases whose figures are those of the true terms, over a wide range of queues."""
    cases, queues = [], []
    for number in range(count):
        first_s, rest_s = 0.1 * 3 ** (number % 5), 0.02 * 2 ** (number % 4)
        at_true = Waves(first_s * 2.0, rest_s * 2.0)
        one = case(number)
        cases.append(dataclasses.replace(one, value=first_token_figure(one, at_true, TRUE)))
        queues.append(waves(first_s, rest_s))
    return cases, queues


def off(cases: list[Case], queues: list[list[Waves]], fitted: dict) -> list[float]:
    """|ln(figure / value)| of each case, at the slowness that was fitted."""
    found = []
    for one, row in zip(cases, queues, strict=True):
        slow = slowness_of(one, fitted)
        unit = row[0].first_s / SLOWNESSES[0], row[0].rest_s / SLOWNESSES[0]
        figure = first_token_figure(one, Waves(slow * unit[0], slow * unit[1]), fitted)
        found.append(abs(math.log(figure / one.value)))  # type: ignore[operator]
    return found


def test_figures_of_known_terms_are_found_again() -> None:
    cases, queues = made_up(40)
    assert max(off(cases, queues, fit_first_tokens(cases, queues))) < 0.12 < max(off(cases, queues, {}))


def test_rows_that_waited_for_something_else_hardly_pull() -> None:
    cases, queues = made_up(40)
    strange = [dataclasses.replace(one, value=20 * one.value) if n % 4 == 0 else one for n, one in enumerate(cases)]
    found = off(cases, queues, fit_first_tokens(strange, queues))
    assert sorted(found)[20] < 0.15


def test_a_burst_is_a_share_and_never_more_than_all() -> None:
    everything = {("burst", ""): 50.0, ("fixed", ""): -50.0}
    assert first_token_figure(case(0), Waves(2.0, 1.0), everything) == pytest.approx(2000.0)


def test_more_at_once_wait_longer_and_slower_prefills_too() -> None:
    few, many = (replay_waves(case(0, concurrency_or_batch=n), {}, 1.0) for n in (2, 32))
    assert few.first_s < many.first_s and few.rest_s <= many.rest_s
    slow = replay_waves(case(0, concurrency_or_batch=2), {}, 3.0)
    assert slow.first_s == pytest.approx(3 * few.first_s, rel=0.3)


def test_a_loop_of_too_many_tokens_is_replayed_in_part_and_its_first_wave_scaled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_token, "MAX_REPLAYED_TOKENS", 10_000)
    few, many = (replay_waves(case(0, concurrency_or_batch=n), {}, 1.0) for n in (8, 800))
    assert many.first_s == pytest.approx(100 * few.first_s, rel=0.05)
