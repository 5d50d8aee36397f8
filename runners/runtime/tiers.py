"""Memory below the chip's own that keeps what its prefix cache has no room for any more.

A block that is evicted goes to the first tier, the least recently evicted one of a full tier to the next, and out of
the last one it is gone. A block that a later prefix wants leaves its tier when it is loaded into the chip's memory:
what is kept is kept once. Tiers are one engine's own. They say what is where, and move no bytes; an executor that does,
or that charges for it, is told by the `loaded` of a sequence's share.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

Tokens = tuple[int, ...]
BlockKey = tuple[int, Tokens]
"""Content id of the block before, and the block's own tokens."""


class Content(NamedTuple):
    """What a full block holds, wherever it is. A `content_id` is given once, so that nothing matches after a block that
    is gone."""

    content_id: int
    key: BlockKey


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
        self.contents: tuple[OrderedDict[BlockKey, Content], ...] = tuple(OrderedDict() for _ in tiers)

    def put(self, content: Content) -> None:
        """Keep what was evicted, and let go of what there is no room for."""
        for tier, contents in zip(self.tiers, self.contents, strict=True):
            contents[content.key] = content
            if len(contents) <= tier.num_blocks:
                return
            _, content = contents.popitem(last=False)

    def find(self, key: BlockKey) -> Content | None:
        return next((contents[key] for contents in self.contents if key in contents), None)

    def take(self, key: BlockKey) -> Content | None:
        """What is kept under the key, which is kept no longer."""
        for contents in self.contents:
            if key in contents:
                return contents.pop(key)
        return None

    def name_of(self, key: BlockKey) -> str:
        """The tier that keeps the key. Raises KeyError if none does."""
        for tier, contents in zip(self.tiers, self.contents, strict=True):
            if key in contents:
                return tier.name
        raise KeyError(key)
