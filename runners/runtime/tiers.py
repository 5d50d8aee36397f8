"""Memory below the chip's own that keeps what its prefix cache has no room for any more.

A block that is evicted goes to the first tier, the least recently evicted one of a full tier to the next, and out of
the last one it is gone. A block that a later prefix wants leaves its tier when it is loaded into the chip's memory:
what is kept is kept once. Tiers are one engine's own. They say what is where, and move no bytes; an executor that does,
or that charges for it, is told by the `loaded` of a sequence's share.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

Tokens = tuple[int, ...]
BlockKey = tuple[int, Tokens]
"""Content id of the block before, and the block's own tokens. What a full block holds has a content id wherever it is;
none is given twice, so that nothing matches after a block that is gone."""


@dataclass(frozen=True, slots=True)
class PrefixTier:
    """A tier by name, and how many KV blocks it holds."""

    name: str
    num_blocks: int

    def __post_init__(self) -> None:
        if self.num_blocks < 1:
            raise ValueError(f"num_blocks of tier {self.name}: {self.num_blocks} is not allowed; allowed: at least 1")


@dataclass(frozen=True, slots=True)
class TierLoad:
    """So many tokens of a sequence's prefix come out of that tier."""

    tier: str
    num_tokens: int


class TierStore:
    """The tiers of one block pool, nearest first; several at least one block large. O(tiers) per block.

    A child is evicted before its parent and so stands before it in every tier: it is gone first, too.
    """

    def __init__(self, tiers: tuple[PrefixTier, ...]) -> None:
        names = [tier.name for tier in tiers]
        if len(set(names)) != len(names):
            raise ValueError(f"prefix_tiers: names {names} are not allowed; allowed: each name once")
        self.tiers = tiers
        self.content_ids: tuple[OrderedDict[BlockKey, int], ...] = tuple(OrderedDict() for _ in tiers)

    def put(self, key: BlockKey, content_id: int) -> None:
        """Keep what was evicted, and let go of what there is no room for."""
        for tier, content_ids in zip(self.tiers, self.content_ids, strict=True):
            content_ids[key] = content_id
            if len(content_ids) <= tier.num_blocks:
                return
            key, content_id = content_ids.popitem(last=False)

    def find(self, key: BlockKey) -> int | None:
        """The content id of what is kept under the key."""
        return next((content_ids[key] for content_ids in self.content_ids if key in content_ids), None)

    def take(self, key: BlockKey) -> int | None:
        """The content id of what is kept under the key, and is kept no longer."""
        for content_ids in self.content_ids:
            if key in content_ids:
                return content_ids.pop(key)
        return None

    def name_of(self, key: BlockKey) -> str:
        """The tier that keeps the key. Raises KeyError if none does."""
        for tier, content_ids in zip(self.tiers, self.content_ids, strict=True):
            if key in content_ids:
                return tier.name
        raise KeyError(key)
