"""How long a prompt's keys and values take from engine to engine."""

from __future__ import annotations

from typing import Literal

import pytest

from runners.modelled.fleet_transfer import KvLinks
from runners.modelled.topology import Transfer

LAYERS = 10


def links(stream: Literal["layer", "whole"], latency_s: float = 0.0) -> KvLinks:
    """A thousand tokens take a second."""
    return KvLinks(Transfer(100, 100_000.0, latency_s, LAYERS, stream, "test"))


def test_sent_whole_it_goes_when_the_prompt_is_computed() -> None:
    assert links("whole").send(0, 1, 1000, 5.0, 7.0) == 8.0
    assert links("whole", 0.25).send(0, 1, 1000, 5.0, 7.0) == 8.25


def test_by_layer_only_the_last_layers_part_is_left_where_the_link_is_faster_than_the_prefill() -> None:
    assert links("layer").send(0, 1, 1000, 5.0, 7.0) == pytest.approx(7.0 + 1.0 / LAYERS)


def test_by_layer_the_link_goes_on_from_the_first_layer_where_it_is_slower_than_the_prefill() -> None:
    assert links("layer").send(0, 1, 4000, 5.0, 7.0) == pytest.approx(5.0 + 2.0 / LAYERS + 4.0)


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (3, 1)])
def test_an_engine_sends_or_receives_one_request_at_a_time(pair: tuple[int, int]) -> None:
    shared = links("whole")
    assert shared.send(0, 1, 1000, 0.0, 1.0) == 2.0
    assert shared.send(*pair, 1000, 0.0, 1.0) == 3.0


def test_other_engines_links_are_free_meanwhile() -> None:
    shared = links("whole")
    assert shared.send(0, 1, 1000, 0.0, 1.0) == shared.send(2, 3, 1000, 0.0, 1.0) == 2.0


def test_latency_keeps_no_link_busy() -> None:
    shared = links("whole", latency_s=10.0)
    assert shared.send(0, 1, 1000, 0.0, 1.0) == 12.0
    assert shared.send(0, 1, 1000, 0.0, 1.0) == 13.0


def test_facts_add_up_what_was_sent_and_waited_for() -> None:
    shared = links("whole")
    shared.send(0, 1, 1000, 0.0, 1.0)
    shared.send(0, 1, 500, 0.0, 1.0)
    assert shared.facts() == {"count": 2, "bytes": 150_000, "seconds": 1.5, "waited_s": 1.0 + 1.5}
