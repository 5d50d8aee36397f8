"""What an agent and the control plane say to each other over REST, as types. Sizes are bounded: a node is not trusted
to be brief."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_FACTS_BYTES = 64 * 1024


def _is_small(value: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    size = len(text.encode("utf-8"))  # a lone surrogate raises here: the database could not hold it
    if size > MAX_FACTS_BYTES:
        raise ValueError(f"{size} bytes of JSON, at most {MAX_FACTS_BYTES} are kept")
    if "\\u0000" in text:
        raise ValueError("holds a NUL character")
    return value


Facts = Annotated[dict[str, Any], AfterValidator(_is_small)]
Version = Annotated[str, Field(max_length=80, pattern=r"^[\x20-\x7e]*$")]
Fault = Annotated[str, Field(max_length=500), AfterValidator(lambda text: "".join(filter(str.isprintable, text)))]
SpoolName = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,17}-[1-9][0-9]{0,8}$")]


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AttemptRef(Message):
    run_id: int = Field(ge=1, lt=2**63)
    attempt: int = Field(ge=1, lt=2**31)

    def spool_name(self) -> str:
        return f"{self.run_id}-{self.attempt}"


class HeldModel(Message):
    name: str = Field(max_length=100, pattern=r"^[\x20-\x7e]+$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


EngineName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
Line = Annotated[str, AfterValidator(lambda text: "".join(filter(str.isprintable, text)))]


class OfferedEngine(Message):
    """An engine of a node beside the built-in one. `settings` are the fields of `engine` that a managed one takes,
    `models` the lab's names of the models that an external one serves; `problem` says why it can't be used now."""

    kind: Literal["external", "managed"]
    name: EngineName
    version: Annotated[Line, Field(max_length=200)] = ""
    dialect: Annotated[Line, Field(max_length=40)] = ""
    settings: list[EngineName] = Field(default_factory=list, max_length=50)
    models: list[EngineName] = Field(default_factory=list, max_length=100)
    problem: Annotated[Line, Field(max_length=300)] = ""


class JoinRequest(Message):
    token: str = Field(max_length=200)
    facts: Facts = Field(default_factory=dict)
    agent_version: Version = ""


class JoinAnswer(Message):
    """`api_token` and the password in `broker_url` are shown here and nowhere else."""

    node: str
    name: str
    kind: str
    chip: dict[str, Any] | None
    api_token: str
    broker_url: str
    key_prefix: str
    queue: str


class Heartbeat(Message):
    """`ended`: attempts of which no process is left. `spools`: event files on the node's disk, as `<run>-<attempt>`.
    `fault`: why the node can take no work just now. Facts, ceilings, models and engines that are absent stay as they
    were."""

    running: AttemptRef | None = None
    spools: list[SpoolName] = Field(default_factory=list, max_length=1000)
    ended: list[AttemptRef] = Field(default_factory=list, max_length=1000)
    facts: Facts | None = None
    ceilings: Facts | None = None
    models: list[HeldModel] | None = Field(default=None, max_length=1000)
    engines: list[OfferedEngine] | None = Field(default=None, max_length=50)
    agent_version: Version = ""
    fault: Fault = ""


class CancelOrder(Message):
    run_id: int
    attempt: int
    reason: str


class HeartbeatAnswer(Message):
    """`stored`: up to which event the control plane has each spool. `discard`: spools that are of no more use."""

    lease_s: float
    heartbeat_s: float
    cancel: list[CancelOrder]
    stored: dict[str, int]
    discard: list[str]
    drain: bool
