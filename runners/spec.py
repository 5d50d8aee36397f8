"""The experiment document as types: what a person writes, the API takes, the database freezes and a node reads.

Units are in the names, unknown keys are errors, and every model is frozen. This module holds shapes and rules that
one document can show by itself; turning text into a document is `runners.document`, expanding its matrix is
`runners.matrix`. Whether a model, chip or node exists is for the control plane to say.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from runners.plain_text import NAME_RULE, TEXT_RULE, is_name, is_text


def _readable_name(value: str) -> str:
    if not is_name(value):
        raise PydanticCustomError("unreadable", "not a name that can be read", {"allowed": NAME_RULE})
    return value


def _readable_text(value: str) -> str:
    if not is_text(value):
        raise PydanticCustomError("unreadable", "not a text that can be read", {"allowed": TEXT_RULE})
    return value


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_readable_name)]
Tag = Annotated[str, Field(min_length=1, max_length=50), AfterValidator(_readable_name)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
Tokens = Annotated[int, Field(ge=1, le=131_072)]
Setting = str | int | float | bool | None


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NodeSelector(Document):
    """Which nodes may run it: those that carry all the labels, or those named. `{}` means any node."""

    labels: dict[str, str] = Field(default_factory=dict, max_length=20)
    names: tuple[Slug, ...] = Field(default=(), max_length=100)

    @model_validator(mode="after")
    def labels_or_names(self) -> Self:
        if self.labels and self.names:
            raise PydanticCustomError("labels_or_names", "give labels or names, not both")
        return self


class SchedulerSpec(Document):
    policy: Literal["fcfs"] = "fcfs"
    chunked_prefill: bool = True
    itl_target_s: None = None


class SpeculationSpec(Document):
    kind: Literal["none"] = "none"


class EngineSpec(Document):
    """`weights` int8 is W8A8 (per-channel weights, per-token activations) and costs quality; `activations` auto
    follows it."""

    kind: Literal["builtin"] = "builtin"
    kernels: Literal["auto", "torch"] = "auto"
    weights: Literal["bf16", "int8"] = "bf16"
    activations: Literal["auto", "bf16", "int8"] = "auto"
    kv_cache: Literal["bf16"] = "bf16"
    max_num_seqs: int = Field(default=16, ge=1, le=1024)
    max_num_batched_tokens: int = Field(default=2048, ge=16, le=131_072)
    block_size: Literal[8, 16, 32, 64, 128] = 32
    prefix_cache: bool = True
    scheduler: SchedulerSpec = SchedulerSpec()
    speculation: SpeculationSpec = SpeculationSpec()
    threads: Literal["auto"] | Annotated[int, Field(ge=1, le=256)] = "auto"

    @model_validator(mode="after")
    def combination_exists(self) -> Self:
        if self.activations not in ("auto", self.weights):
            raise PydanticCustomError(
                "impossible_combination",
                "activations {activations} with weights {weights} has no kernel",
                {"field": "activations", "activations": self.activations, "weights": self.weights,
                 "allowed": ["auto", self.weights]},
            )  # fmt: skip
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise PydanticCustomError(
                "impossible_combination",
                "max_num_batched_tokens {tokens} is below max_num_seqs {seqs}: a step could not decode every sequence",
                {"field": "max_num_batched_tokens", "tokens": self.max_num_batched_tokens,
                 "seqs": self.max_num_seqs, "allowed": f"at least {self.max_num_seqs}"},
            )  # fmt: skip
        return self


class RouterSpec(Document):
    policy: Literal["round_robin"] = "round_robin"


class PlacementSpec(Document):
    replicas: Literal[1] = 1
    tensor_parallel: Literal[1] = 1
    pipeline_parallel: Literal[1] = 1
    disaggregate: Literal["none"] = "none"
    router: RouterSpec = RouterSpec()


class FixedLen(Document):
    dist: Literal["fixed"]
    tokens: Tokens

    @property
    def longest(self) -> int:
        return self.tokens


class UniformLen(Document):
    dist: Literal["uniform"]
    min_tokens: Tokens
    max_tokens: Tokens

    @model_validator(mode="after")
    def ordered(self) -> Self:
        if self.min_tokens > self.max_tokens:
            raise PydanticCustomError(
                "order", "min_tokens is above max_tokens",
                {"field": "min_tokens", "allowed": f"at most {self.max_tokens}"},
            )  # fmt: skip
        return self

    @property
    def longest(self) -> int:
        return self.max_tokens


class LognormalLen(Document):
    """Lognormal in tokens: the median and the sigma of the logarithm; draws are clipped to [1, max_tokens]."""

    dist: Literal["lognormal"]
    median_tokens: Tokens
    sigma: float = Field(gt=0, le=4)
    max_tokens: Tokens

    @property
    def longest(self) -> int:
        return self.max_tokens


LengthSpec = Annotated[FixedLen | UniformLen | LognormalLen, Field(discriminator="dist")]


class ClosedArrival(Document):
    """`max_concurrency` users, each with one request in flight; the next is sent when the last has ended."""

    kind: Literal["closed"]
    max_concurrency: int = Field(ge=1, le=4096)


class OpenArrival(Document):
    """Arrivals at `request_rate` per second with gamma gaps: `burstiness` 1 is Poisson, lower is burstier."""

    kind: Literal["open"]
    request_rate: float = Field(gt=0, le=10_000)
    burstiness: float = Field(default=1.0, gt=0, le=100)


ArrivalSpec = Annotated[ClosedArrival | OpenArrival, Field(discriminator="kind")]


class WarmupSpec(Document):
    num_requests: int = Field(default=4, ge=0, le=10_000)


class SamplingSpec(Document):
    temperature: float = Field(default=0.0, ge=0, le=2)
    top_k: int = Field(default=0, ge=0, le=1_000_000)
    top_p: float = Field(default=1.0, gt=0, le=1)
    ignore_eos: bool = True


class WorkloadSpec(Document):
    """`synthetic` prompts are random token ids, `text` prompts are cut from the text that the project ships."""

    kind: Literal["synthetic", "text"]
    input_len: LengthSpec = FixedLen(dist="fixed", tokens=128)
    output_len: LengthSpec = FixedLen(dist="fixed", tokens=32)
    arrival: ArrivalSpec
    num_requests: int | None = Field(default=None, ge=1, le=1_000_000)
    duration_s: float | None = Field(default=None, gt=0, le=86_400)
    warmup: WarmupSpec = WarmupSpec()
    sampling: SamplingSpec = SamplingSpec()
    classes: Annotated[tuple[()], Field()] = ()
    shared_prefix: None = None

    @model_validator(mode="after")
    def one_end(self) -> Self:
        if (self.num_requests is None) == (self.duration_s is None):
            raise PydanticCustomError(
                "one_of", "give num_requests or duration_s, exactly one of them",
                {"field": "num_requests", "allowed": ["num_requests", "duration_s"]},
            )  # fmt: skip
        return self


Objective = Annotated[float, Field(gt=0, le=86_400)]
PercentileName = Literal["p50", "p90", "p95", "p99"]


class SloSpec(Document):
    """Objectives in seconds. A bare number binds every request; `{p95: x}` binds that percentile of the run."""

    ttft_s: Objective | dict[PercentileName, Objective] | None = None
    tpot_s: Objective | dict[PercentileName, Objective] | None = None
    e2el_s: Objective | dict[PercentileName, Objective] | None = None


class CostSpec(Document):
    usd_per_hour: Literal["node"] | Annotated[float, Field(ge=0, le=1_000_000)] = "node"
    watts: None = None


class BudgetSpec(Document):
    """Limits of the whole experiment, and of one run (`max_run_seconds`), in seconds of the control plane's clock."""

    max_runs: int = Field(default=200, ge=1, le=2000)
    max_seconds: float = Field(default=7200, gt=0, le=604_800)
    max_run_seconds: float = Field(default=900, gt=0, le=86_400)


class ExperimentSpec(Document):
    """The whole document. `matrix` maps dotted paths to the values to compare; every combination is a trial.

    `allow_speculative` lets chips take part whose vendors have not disclosed all that a step needs: stand-ins of the
    catalog take those places, and the results say so.
    """

    name: Name
    question: Annotated[str, Field(max_length=2000), AfterValidator(_readable_text)] = ""
    tags: tuple[Tag, ...] = Field(default=(), max_length=20)
    model: Slug
    nodes: NodeSelector
    chip: Slug = "any"
    allow_speculative: bool = False
    engine: EngineSpec = EngineSpec()
    placement: PlacementSpec = PlacementSpec()
    workload: WorkloadSpec
    slo: SloSpec = SloSpec()
    quality: None = None
    cost: CostSpec = CostSpec()
    matrix: dict[str, Annotated[tuple[Setting, ...], Field(min_length=1, max_length=100)]] = Field(
        default_factory=dict, max_length=10
    )
    exclude: tuple[dict[str, Setting], ...] = Field(default=(), max_length=200)
    design: Literal["factorial"] = "factorial"
    search: None = None
    baseline: dict[str, Setting] = Field(default_factory=dict, max_length=10)
    repeats: int = Field(default=3, ge=1, le=100)
    order: Literal["interleaved"] = "interleaved"
    seed: int = Field(default=0, ge=0, lt=2**63)
    budget: BudgetSpec = BudgetSpec()
    retries: int = Field(default=1, ge=0, le=10)

    @field_validator("matrix")
    @classmethod
    def values_differ(cls, matrix: dict[str, tuple[Setting, ...]]) -> dict[str, tuple[Setting, ...]]:
        for path, values in matrix.items():
            if len({repr(value) for value in values}) != len(values):
                raise PydanticCustomError("repeated_value", "{path} lists a value twice", {"path": path, "field": path})
        return matrix

    @model_validator(mode="after")
    def prompt_fits_budget(self) -> Self:
        longest = self.workload.input_len.longest
        if not self.engine.scheduler.chunked_prefill and longest > self.engine.max_num_batched_tokens:
            raise PydanticCustomError(
                "impossible_combination",
                "without chunked prefill a prompt of {longest} tokens does not fit a step of {budget} tokens",
                {"field": "engine.max_num_batched_tokens", "longest": longest,
                 "budget": self.engine.max_num_batched_tokens, "allowed": f"at least {longest}"},
            )  # fmt: skip
        return self


class ModelRef(Document):
    """The model as the registry knows it, frozen with the run: a node refuses a file with another hash.

    `entry` is the whole registered model (`runners.models.ModelEntry` as a mapping), so that a node needs no registry;
    without it the model is one that the lab ships.
    """

    name: Slug
    sha256: str
    shape: dict[str, Any]
    entry: dict[str, Any] | None = None


class RunSpec(Document):
    """One run, frozen when the experiment is submitted; what a node gets when it claims.

    `settings` are the trial's values by matrix path, already applied in `engine`, `workload`, `placement`. `chip` is
    the record of the chip that the node stands for (`ChipRecord` as a mapping), filled at the claim. `seed` is shared
    by the trials of one repeat, so that every setting meets the same requests.
    """

    run_id: int
    experiment_id: int
    trial_index: int
    repeat: int
    seed: int
    settings: dict[str, Setting]
    model: ModelRef
    chip_id: str
    chip: dict[str, Any] | None = None
    allow_speculative: bool = False
    engine: EngineSpec
    placement: PlacementSpec
    workload: WorkloadSpec
    slo: SloSpec
    cost: CostSpec
    usd_per_hour: float | None = None
    time_limit_s: float
    code_revision: str
