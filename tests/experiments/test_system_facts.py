"""What a run's page makes of the system that a node reports, whole or in part."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from system_of_two_pools import FACTS

from experiments.system_facts import SystemPanel, engine_names, phases_of, system_of


def told(**changes: Any) -> SystemPanel:
    panel = system_of(copy.deepcopy(FACTS) | changes)
    assert panel is not None
    return panel


def test_a_system_is_told_in_one_sentence():
    pools = "2 prefill engines on 1 × h100-sxm each → 1 decode engine on 8 × mi300x"
    assert told().text == f"{pools} over 50.0\u00a0GB/s, 5.00\u00a0µs latency"


def test_pools_tell_their_chips_parallelism_and_memory():
    prefill, decode = told().pools
    assert (prefill.role, prefill.engines, prefill.chips, prefill.parallel) == (
        "prefill",
        2,
        (("h100-sxm", 1),),
        "none",
    )
    assert (decode.chips, decode.parallel) == ((("mi300x", 8),), "tensor 8")
    assert (decode.weights, decode.kv) == ("2.00\u00a0GB", "1.20\u00a0TB in 99\u2009000 blocks")


def test_an_engine_of_unlike_chips_names_each():
    pool = FACTS["system"]["pools"][0] | {"role": "serve", "engines": 1}
    pool |= {"chip": "b+a", "chips": {"a": 64, "b": 2}}
    pool |= {"parallel": {"tp": 2, "ffn": {"tp": 1, "ep": 64}}}
    (line,) = told(system={"pools": [pool]}).pools
    assert line.words == "1 engine on 2 × b + 64 × a"
    assert line.parallel == "attention: tensor 2; FFN: expert 64"


def test_a_phase_tells_its_parts_and_what_bounds_it():
    prefill, decode = phases_of(FACTS)
    assert (prefill.name, prefill.bound, prefill.share("compute")) == ("prefill", "compute", 0.75)
    assert decode.bound == "bandwidth, and the KV cache lacked room"


def test_transfers_and_a_price_say_what_they_rest_on():
    assert told().transfers == "32.0 of 100\u00a0MB each on average; a request waited 2.00\u00a0ms for its own"
    assert told().price == "31.5 $/h, assumed: the catalog’s prices of its chips"
    panel = system_of(FACTS, usd_per_hour=20.0)
    assert panel is not None and panel.price == "20.0 $/h, as the document or the node states"
    assert told(transfers=None, usd_per_hour=None).price == told(transfers=None).transfers == ""


def test_every_link_tells_what_it_joins_and_who_says_so():
    inside = {"h100-sxm": {"bytes_per_s": 4.5e11, "latency_s": None, "source": "the chip's record"}}
    assert told(system=FACTS["system"] | {"links": inside}).links == (
        ("prefill to decode", "50.0\u00a0GB/s, 5.00\u00a0µs latency"),
        ("h100-sxm", "450\u00a0GB/s; the chip's record"),
    )


def test_phases_come_in_the_order_of_a_request():
    stored = dict(sorted(FACTS["phases"].items()))
    assert [phase.name for phase in phases_of({"phases": stored})] == ["prefill", "decode"]


def test_engines_have_names_where_there_are_several():
    assert engine_names(FACTS) == ("prefill-0", "prefill-1", "decode-0")
    assert engine_names({"system": {"pools": [{"role": "serve", "engines": 1}]}}) == ()


def test_a_router_is_told_where_there_is_something_to_route():
    assert told().router == "by cached prompts"
    assert told(system=FACTS["system"] | {"pools": FACTS["system"]["pools"][1:]}).router == ""


@pytest.mark.parametrize("facts", [{}, {"system": None}, {"system": {"pools": []}}, {"system": {"pools": [None, 3]}}])
def test_no_system_makes_no_panel(facts: dict[str, Any]):
    assert system_of(facts) is None


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([*FACTS, "pools", *FACTS["system"]["pools"][0], "link"]), anything)
def test_what_has_another_form_is_left_out(key: str, value: Any) -> None:
    facts = copy.deepcopy(FACTS)
    for place in (facts, facts["system"], facts["system"]["pools"][0], facts["phases"]["decode"]):
        if key in place:
            place[key] = value
    system_of(facts)
