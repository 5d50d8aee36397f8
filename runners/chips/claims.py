"""What is claimed of a chip, kept apart from its specifications: a claim is tested, never calculated with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from runners.chips.figures import Count, Record, Slug, Text

Metric = Literal["tokens_per_s_per_user", "output_tokens_per_s", "petaflops", "times_baseline", "other"]


class ClaimTest(Record):
    """What to model to judge a claim: `model` is the name of a shape, `chips` serve it together (single ones, also
    where the record is of a system), `users` at once (null: as many as fit), weights in `weights`, lying in
    `memory`."""

    model: Slug
    chips: Count = 1
    weights: str = "bf16"
    users: Annotated[int, Field(ge=1)] | None = None
    memory: Literal["main", "sram"] = "main"


class Claim(Record):
    """`figure` is in `unit`, null where the claim has no number; `conditions` are all that was said of how."""

    claim: Text
    figure: float | None = None
    unit: str = ""
    metric: Metric = "other"
    conditions: str = ""
    source: Text
    test: ClaimTest | None = None
