"""What a modelled node offers: pools of chips, and the links between them, as an operator states them.

A pool is `{"chip": id, "count": n}`; the chip `any` stands for every chip of the catalog that no other pool names. A
link is `{"between": [id, id], "bytes_per_s": …, "latency_s": …}`: one direction, of one chip. How an experiment uses
them is said in its document (runners.spec.placement); whether a model fits on them is judged at its submission.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hardware.errors import HardwareError

ANY_CHIP = "any"
UNSTATED = 1024
"""How many a node offers of its own chip where no pool says: a model of a chip costs nothing to repeat."""
MOST_CHIPS = 100_000
MAX_POOLS = 100
MAX_LINKS = 200
SLOWEST, FASTEST = 1e6, 1e16
LONGEST_S = 10.0
POOL = '{"chip": "h100-sxm", "count": 8}'
LINK = '{"between": ["h100-sxm", "wse3"], "bytes_per_s": 50e9, "latency_s": 5e-6}'

Offers = Mapping[str, int]
"""How many chips there are of each id; `any` is for every id that is not named."""


def offers_of(chip_id: str, pools: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What a node of that chip and those pools offers."""
    stated = {str(pool["chip"]): int(pool["count"]) for pool in pools}
    own = {chip_id: stated.get(ANY_CHIP, UNSTATED)} if chip_id else {}
    return own | stated


def count_offered(offers: Offers, chip_id: str) -> int:
    return offers.get(chip_id, offers.get(ANY_CHIP, 0))


def check_pools(pools: Any, known: Collection[str]) -> list[dict[str, Any]]:
    """The pools, if a node may offer them; `known` are the ids of the catalog. Raises HardwareError with the first
    fault."""
    if not isinstance(pools, list) or len(pools) > MAX_POOLS:
        raise HardwareError("pools", "not a list of pools", f"at most {MAX_POOLS} such as {POOL}")
    found: dict[str, dict[str, Any]] = {}
    for place, pool in enumerate(pools):
        where = f"pools.{place}"
        _check_keys(pool, where, {"chip", "count"}, POOL)
        chip, count = pool["chip"], pool["count"]
        if not isinstance(chip, str) or chip not in (ANY_CHIP, *known):
            raise HardwareError(f"{where}.chip", f"no chip {chip!r:.60} in the catalog", [ANY_CHIP, *sorted(known)])
        if not _is_whole(count) or not 1 <= count <= MOST_CHIPS:
            raise HardwareError(
                f"{where}.count", f"{count!r:.60} is no number of chips", f"a whole number from 1 to {MOST_CHIPS}"
            )
        if chip in found:
            raise HardwareError(f"{where}.chip", f"{chip} has a pool already", "one pool of each chip")
        found[chip] = {"chip": chip, "count": count}
    return list(found.values())


def check_links(links: Any, offers: Offers, known: Collection[str]) -> list[dict[str, Any]]:
    """The links, if they join chips of the catalog (`known`) that the node offers. Raises HardwareError with the first
    fault."""
    if not isinstance(links, list) or len(links) > MAX_LINKS:
        raise HardwareError("links", "not a list of links", f"at most {MAX_LINKS} such as {LINK}")
    found: dict[frozenset[str], dict[str, Any]] = {}
    for place, link in enumerate(links):
        where = f"links.{place}"
        _check_keys(link, where, {"between", "bytes_per_s", "latency_s"}, LINK, optional={"latency_s"})
        between = _check_ends(link["between"], f"{where}.between", offers, known)
        if frozenset(between) in found:
            message = f"{' and '.join(between)} are linked already"
            raise HardwareError(f"{where}.between", message, "one link for a pair")
        found[frozenset(between)] = {
            "between": between,
            "bytes_per_s": _check_rate(link["bytes_per_s"], f"{where}.bytes_per_s"),
            "latency_s": _check_latency(link.get("latency_s", 0.0), f"{where}.latency_s"),
        }
    return list(found.values())


def _check_keys(value: Any, where: str, keys: set[str], example: str, optional: Collection[str] = ()) -> None:
    if not isinstance(value, dict):
        raise HardwareError(where, f"{value!r:.60} is not a mapping", example)
    for key in value:
        if key not in keys:
            raise HardwareError(f"{where}.{key}", "unknown key (units are in the names)", sorted(keys))
    for key in sorted(keys - value.keys() - set(optional)):
        raise HardwareError(f"{where}.{key}", "this key is required", example)


def _check_ends(between: Any, where: str, offers: Offers, known: Collection[str]) -> list[str]:
    if not isinstance(between, list) or len(between) != 2 or not all(isinstance(end, str) for end in between):
        raise HardwareError(where, f"{between!r:.60} are not two chips", "two chip ids, which may be the same")
    for end in between:
        if end not in known or not count_offered(offers, end):
            allowed = sorted(known if ANY_CHIP in offers else offers.keys())
            raise HardwareError(where, f"the node offers no {end!r:.60}", allowed or POOL)
    return between


def _check_rate(value: Any, where: str) -> float:
    if not _is_number(value) or not SLOWEST <= value <= FASTEST:
        allowed = f"bytes per second, {SLOWEST:g} to {FASTEST:g} (50 GB/s is 50e9)"
        raise HardwareError(where, f"{value!r:.60} is no rate of a link", allowed)
    return float(value)


def _check_latency(value: Any, where: str) -> float:
    if not _is_number(value) or not 0 <= value <= LONGEST_S:
        allowed = f"seconds, 0 to {LONGEST_S:g} (5 µs is 5e-6)"
        raise HardwareError(where, f"{value!r:.60} is no latency of a link", allowed)
    return float(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
