"""What a modelled node offers: how many chips of each id, and which statements of pools and links are refused."""

from __future__ import annotations

from typing import Any

import pytest

from hardware.errors import HardwareError
from hardware.pools import MAX_POOLS, UNSTATED, check_links, check_pools, count_offered, offers_of

KNOWN = {"a", "b"}
OFFERS = {"a": 8, "b": 1}


def test_a_node_offers_its_own_chip_as_often_as_is_asked() -> None:
    assert offers_of("a", []) == {"a": UNSTATED}


def test_a_pool_of_its_own_chip_says_how_many() -> None:
    assert offers_of("a", [{"chip": "a", "count": 2}, {"chip": "b", "count": 3}]) == {"a": 2, "b": 3}


def test_a_pool_of_any_chip_stands_for_those_that_no_other_pool_names() -> None:
    offers = offers_of("a", [{"chip": "any", "count": 64}, {"chip": "b", "count": 3}])
    assert [count_offered(offers, chip) for chip in ("a", "b", "c")] == [64, 3, 64]


def test_without_such_a_pool_other_chips_are_not_offered() -> None:
    assert count_offered(offers_of("a", []), "b") == 0


def test_pools_and_links_that_are_right_are_kept_as_they_are() -> None:
    pools = [{"chip": "a", "count": 8}, {"chip": "any", "count": 2}]
    links = [{"between": ["a", "b"], "bytes_per_s": 50e9, "latency_s": 5e-6}]
    assert check_pools(pools, KNOWN) == pools
    assert check_links(links, OFFERS, KNOWN) == links
    assert check_links([{"between": ["a", "a"], "bytes_per_s": 50_000_000_000}], OFFERS, KNOWN)[0]["latency_s"] == 0.0


@pytest.mark.parametrize(
    ("pools", "field"),
    [
        ({}, "pools"),
        ([{"chip": "a", "count": 1}] * (MAX_POOLS + 1), "pools"),
        (["a"], "pools.0"),
        ([{"chip": "c", "count": 1}], "pools.0.chip"),
        ([{"chip": ["a"], "count": 1}], "pools.0.chip"),
        ([{"chip": "a"}], "pools.0.count"),
        ([{"chip": "a", "count": 0}], "pools.0.count"),
        ([{"chip": "a", "count": True}], "pools.0.count"),
        ([{"chip": "a", "count": 1.5}], "pools.0.count"),
        ([{"chip": "a", "count": 10**9}], "pools.0.count"),
        ([{"chip": "b", "count": 1}, {"chip": "a", "count": 1, "number": 2}], "pools.1.number"),
        ([{"chip": "a", "count": 1}, {"chip": "a", "count": 2}], "pools.1.chip"),
    ],
)
def test_a_wrong_pool_is_told_by_its_key_with_what_is_allowed(pools: Any, field: str) -> None:
    with pytest.raises(HardwareError) as caught:
        check_pools(pools, KNOWN)
    assert caught.value.field == field
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("link", "field"),
    [
        ({"between": ["a", "c"], "bytes_per_s": 1e9}, "links.0.between"),
        ({"between": ["a", "any"], "bytes_per_s": 1e9}, "links.0.between"),
        ({"between": ["a"], "bytes_per_s": 1e9}, "links.0.between"),
        ({"between": "ab", "bytes_per_s": 1e9}, "links.0.between"),
        ({"between": ["a", "b"]}, "links.0.bytes_per_s"),
        ({"between": ["a", "b"], "bytes_per_s": 50}, "links.0.bytes_per_s"),
        ({"between": ["a", "b"], "bytes_per_s": float("nan")}, "links.0.bytes_per_s"),
        ({"between": ["a", "b"], "bytes_per_s": 10**400}, "links.0.bytes_per_s"),
        ({"between": ["a", "b"], "bytes_per_s": "50e9"}, "links.0.bytes_per_s"),
        ({"between": ["a", "b"], "bytes_per_s": 1e9, "latency_s": -1}, "links.0.latency_s"),
        ({"between": ["a", "b"], "bytes_per_s": 1e9, "latency_s": 500}, "links.0.latency_s"),
        ({"between": ["a", "b"], "gb_per_s": 50}, "links.0.gb_per_s"),
        ({"between": ["a", "b"], "bytes_per_s": 1e9, "latency_us": 5}, "links.0.latency_us"),
        (7, "links.0"),
    ],
)
def test_a_wrong_link_is_told_by_its_key_with_what_is_allowed(link: Any, field: str) -> None:
    with pytest.raises(HardwareError) as caught:
        check_links([link], OFFERS, KNOWN)
    assert caught.value.field == field
    assert caught.value.allowed


def test_a_pair_has_one_link_whichever_way_round() -> None:
    links = [{"between": ["a", "b"], "bytes_per_s": 1e9}, {"between": ["b", "a"], "bytes_per_s": 2e9}]
    with pytest.raises(HardwareError, match="linked already"):
        check_links(links, OFFERS, KNOWN)


def test_a_link_may_end_at_a_chip_of_the_pool_of_any_chip() -> None:
    assert check_links([{"between": ["a", "z"], "bytes_per_s": 1e9}], {"a": 1, "any": 4}, {"a", "z"})


def test_the_pool_of_any_chip_has_none_that_the_catalog_lacks() -> None:
    with pytest.raises(HardwareError, match="the node offers no 'y'") as caught:
        check_links([{"between": ["a", "y"], "bytes_per_s": 1e9}], {"a": 1, "any": 4}, {"a", "z"})
    assert caught.value.allowed == ["a", "z"]
