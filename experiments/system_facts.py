"""What a modelled run reports of its system, as lines for a person: pools, links, phases, transfers, energy, price.

Nodes of other versions may report less or more: what has another form than expected is left out here, and stays in the
run's provenance. Nothing is computed from it but shares of a phase's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.chip_facts import prefixed
from runners.display import digits, shown

PARTS = ("compute", "bandwidth", "link", "overhead")
PARALLEL = (("tp", "tensor"), ("dp", "data"), ("pp", "pipeline"), ("ep", "expert"))
ROUTERS = {"round_robin": "in turn", "least_loaded": "least loaded", "kv_aware": "by cached prompts"}
ROLES = {"serve": "serving"}


@dataclass(frozen=True)
class PoolLine:
    """`chips` are (id, how many of them one engine has)."""

    role: str
    engines: int
    chips: tuple[tuple[str, int | None], ...]
    parallel: str
    weights: str
    kv: str

    @property
    def words(self) -> str:
        kind = "" if self.role == "serving" else f"{self.role} "
        on = " + ".join(chip if count is None else f"{count} × {chip}" for chip, count in self.chips)
        return f"{self.engines} {kind}engine{'s' * (self.engines != 1)} on {on}{' each' * (self.engines > 1)}"


@dataclass(frozen=True)
class Phase:
    """`parts` are seconds of step time by what bounded it, `bound` is the largest in words, `queue_share` how much of
    its requests' time in the phase was waiting for it."""

    name: str
    seconds: float
    parts: Mapping[str, float]
    bound: str
    queue_share: float | None

    def share(self, part: str) -> float:
        return self.parts[part] / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class SystemPanel:
    """`text` is the whole system in a sentence, `links` are what is joined by how fast a link, and who says so."""

    chips: int
    pools: tuple[PoolLine, ...]
    text: str
    links: tuple[tuple[str, str], ...]
    router: str
    phases: tuple[Phase, ...]
    transfers: str
    price: str
    engines: tuple[str, ...]


def system_of(facts: Mapping[str, Any], usd_per_hour: float | None = None) -> SystemPanel | None:
    """None where the run reported no system. `usd_per_hour` is what its document or its node asks, if either does."""
    system = _mapping(facts, "system")
    pools = tuple(line for pool in _list(system, "pools") if (line := _pool(pool)) is not None)
    if not pools:
        return None
    link = _link(_mapping(system, "link"))
    several = sum(pool.engines for pool in pools) > 1
    router = str(system.get("router") or "")
    return SystemPanel(
        chips=int(_number(system, "chips") or 0),
        pools=pools,
        text=_sentence(pools, link),
        links=tuple(_links(system)),
        router=ROUTERS.get(router, router) if several else "",
        phases=phases_of(facts),
        transfers=_transfers(_mapping(facts, "transfers")),
        price=_price(usd_per_hour, _number(facts, "usd_per_hour")),
        engines=engine_names(facts),
    )


def engine_names(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that its steps carry; none where it has one engine alone."""
    pools = [pool for pool in _list(_mapping(facts, "system"), "pools") if isinstance(pool, Mapping)]
    counts = [(str(pool.get("role") or "engine"), int(_number(pool, "engines") or 0)) for pool in pools]
    names = tuple(f"{role}-{number}" for role, count in counts for number in range(count))
    return names if len(names) > 1 else ()


def phases_of(facts: Mapping[str, Any]) -> tuple[Phase, ...]:
    found = []
    told = _mapping(facts, "phases")
    for name in sorted(told, key=lambda one: (one != "prefill", one)):
        value = told[name]
        seconds = _number(value, "seconds") if isinstance(value, Mapping) else None
        if seconds:
            parts = {part: _number(value, f"{part}_s") or 0.0 for part in PARTS}
            found.append(Phase(name, seconds, parts, _bound(value), _number(value, "queue_share")))
    return tuple(found)


def _pool(pool: Any) -> PoolLine | None:
    engines = _number(pool, "engines") if isinstance(pool, Mapping) else None
    if engines is None:
        return None
    role = str(pool.get("role") or "")
    weights, kv, blocks = (_number(pool, key) for key in ("weight_bytes_per_chip", "kv_bytes", "num_blocks"))
    return PoolLine(
        role=ROLES.get(role, role),
        engines=int(engines),
        chips=_chips(pool),
        parallel=_parallel(_mapping(pool, "parallel")),
        weights="–" if weights is None else prefixed(weights, "B"),
        kv="–" if kv is None else prefixed(kv, "B") + ("" if blocks is None else f" in {digits(blocks)} blocks"),
    )


def _chips(pool: Mapping[str, Any]) -> tuple[tuple[str, int | None], ...]:
    """The kinds of chips that an engine lies on with their counts, that with the attention first; or, where those are
    not told, one with all."""
    told, order = _mapping(pool, "chips"), str(pool.get("chip") or "").split("+")
    kinds = sorted(told, key=lambda chip: order.index(chip) if chip in order else len(order))
    named = tuple((str(chip), int(count)) for chip in kinds if (count := _number(told, chip)) is not None)
    count = _number(pool, "chips_per_engine")
    return named or ((str(pool.get("chip") or "chips"), None if count is None else int(count)),)


def _parallel(parallel: Mapping[str, Any]) -> str:
    split = [(word, int(size)) for key, word in PARALLEL if (size := _number(parallel, key)) and size > 1]
    cut = ", ".join(f"{word} {size}" for word, size in split) or "none"
    other = _mapping(parallel, "ffn")
    return f"attention: {cut}; FFN: {_parallel(other)}" if other else cut


def _link(link: Mapping[str, Any]) -> str:
    speed, latency = _number(link, "bytes_per_s"), _number(link, "latency_s")
    parts = [] if speed is None else [prefixed(speed, "B/s")]
    return ", ".join([*parts, *([f"{prefixed(latency, 's')} latency"] if latency else [])])


def _links(system: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    between = _mapping(system, "link")
    named = {"prefill to decode": between} if len(_list(system, "pools")) > 1 and between else {}
    for name, link in {**named, **_mapping(system, "links")}.items():
        words = _link(link) if isinstance(link, Mapping) else ""
        if words:
            yield str(name), f"{words}; {link['source']}" if link.get("source") else words


def _sentence(pools: Sequence[PoolLine], link: str) -> str:
    words = " → ".join(pool.words for pool in pools)
    return f"{words} over {link}" if link else words


def _bound(value: Mapping[str, Any]) -> str:
    bound = str(value.get("bound") or "")
    return f"{bound}, and the KV cache lacked room" if bound and value.get("capacity") else bound


def _transfers(transfers: Mapping[str, Any]) -> str:
    count, moved = _number(transfers, "count"), _number(transfers, "bytes")
    if not count or moved is None:
        return ""
    waited = _number(transfers, "waited_s")
    told = f"{digits(count)} of {prefixed(moved / count, 'B')} each on average"
    return told if waited is None else f"{told}; a request waited {shown(waited / count, 's')} for its own"


def _price(asked: float | None, of_catalog: float | None) -> str:
    if asked is not None:
        return f"{digits(asked)} $/h, as the document or the node states"
    return "" if of_catalog is None else f"{digits(of_catalog)} $/h, assumed: the catalog’s prices of its chips"


def _mapping(facts: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = facts.get(key)
    return found if isinstance(found, Mapping) else {}


def _list(facts: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = facts.get(key)
    return found if isinstance(found, list | tuple) else ()


def _number(facts: Mapping[str, Any], key: str) -> float | None:
    found = facts.get(key)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
