"""Nodes, as the API gives them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from experiments.api.schemas.common import PageOut


class PoolOut(Schema):
    chip: str = Field(description="A chip id, or `any`: every chip of the catalog that no other pool names.")
    count: int


class LinkOut(Schema):
    between: tuple[str, str] = Field(description="Chip ids; both may be the same.")
    bytes_per_s: float = Field(description="One direction, of one chip.")
    latency_s: float


class NoiseOut(Schema):
    """One metric's on one node, from valid runs of equal settings there; shares of the setting's mean."""

    within: float | None = Field(description="Standard deviation of a run within an experiment.")
    within_freedom: int
    between: float | None = Field(description="That of experiments' means beyond it; null below 3 degrees of freedom.")
    between_freedom: int
    runs: int
    settings: int
    experiments: int
    oldest: datetime
    newest: datetime


class EngineOut(Schema):
    kind: str = Field(description="`external` (an endpoint) or `managed` (a command that the node starts and stops).")
    name: str = Field(description="What a document says in `engine.name`.")
    version: str = Field(default="", description="What its version command says; empty where that is not known.")
    dialect: str = ""
    settings: list[str] = Field(default=[], description="The fields of `engine` that a managed engine takes.")
    models: list[str] = Field(default=[], description="The models that an external engine serves.")
    problem: str = Field(default="", description="Why it can't be used now; empty where nothing is wrong.")


class NodeOut(Schema):
    slug: str
    name: str
    kind: str
    state: str
    project: str | None
    chip: str | None
    chip_name: str | None
    pools: list[PoolOut] = Field(description="What a modelled node offers, its own chip first; none on a measured one.")
    links: list[LinkOut] = Field(description="What joins chips of a modelled node, where that is stated.")
    labels: dict[str, Any]
    usd_per_hour: float | None
    last_seen_at: datetime | None
    current_run: int | None
    facts: dict[str, Any]
    ceilings: dict[str, Any]
    models: list[Any]
    engines: list[EngineOut] = Field(description="Beside the built-in one, from its operator's list.")
    agent_version: str
    noise: dict[str, NoiseOut] = Field(description="By metric; empty on a modelled node, and before any repeats.")
    fault: str = Field(description="Why it takes no work though its agent may run; empty where nothing is wrong.")


class NodePage(PageOut):
    items: list[NodeOut]
