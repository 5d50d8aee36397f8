"""Coefficients of the cost model, in levels: of all, then of the engine, the chip's family, and finer groups.

Each is a physical quantity with a prior: a share of a peak, or seconds of overhead. A coefficient of a case is its
prior times the factors of the groups that the case is in; a group that no result was fitted on has factor 1, which is
what falling back to the family, the engine or all chips means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from runners.modelled.work import Number, Speeds

Key = tuple[str, str]
"""A parameter: coefficient, and group such as "engine|family=vLLM|hopper" ("" for all)."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """`prior` is the value expected; `spread` how far, as a logarithm of a factor, data may move it before that
    counts against the fit; `levels` are the groups that may differ, each with its own spread; `most` is a bound."""

    name: str
    prior: float
    spread: float
    levels: tuple[tuple[str, float], ...]
    most: float = float("inf")


COEFFICIENTS = (
    Coefficient("memory", 0.80, 0.15, (("family", 0.1), ("engine", 0.1), ("engine|family", 0.05)), 1.0),
    Coefficient("kv", 0.60, 0.3, (("family", 0.15), ("engine", 0.3)), 1.0),
    Coefficient(
        "gemm", 0.60, 0.2,
        (("family", 0.15), ("precision", 0.25), ("family|precision", 0.15), ("engine", 0.3),
         ("engine|family|precision", 0.2)), 1.0,
    ),
    Coefficient("expert_gemm", 0.30, 0.4, (("family", 0.15), ("precision", 0.2), ("engine", 0.2)), 1.0),
    Coefficient("attention", 0.35, 0.4, (("family", 1.2), ("engine", 1.2)), 1.0),
    Coefficient("unpack", 4.0, 0.5, (("family", 0.4),)),
    Coefficient("link", 0.40, 0.4, (("family", 0.3), ("engine", 0.2)), 1.0),
    Coefficient("latency_s", 10e-6, 0.5, (("family", 0.4), ("engine", 0.3))),
    Coefficient("layer_s", 20e-6, 0.7, (("engine", 0.7), ("family", 0.3), ("engine|family", 0.2))),
    Coefficient("expert_layer_s", 40e-6, 0.7, (("engine", 0.6), ("family", 0.3), ("precision", 0.3))),
    Coefficient("step_s", 1e-3, 0.8, (("engine", 0.7),)),
    Coefficient("sequence_s", 15e-6, 0.8, (("engine", 0.7), ("family", 0.3))),
    Coefficient("token_s", 0.3e-6, 0.8, (("engine", 0.5),)),
    Coefficient("scope", 1.0, 0.02, (("scenario", 0.3), ("engine|scenario", 0.1), ("engine|family|precision", 0.1))),
)  # fmt: skip
"""`memory` and `kv` are shares of the bandwidth for weights and cache, `gemm` and `expert_gemm` of the format's rate,
`attention` of the wide rate, `link` of the link's; `unpack` is weights unpacked per byte of bandwidth; `scope` is what
remains between a group's rows and the physics above, and multiplies the whole step. Levels of `attention` are wide, as
engines without a fused kernel for it reach a hundredth of those with one."""
FIRST_TOKEN = (
    Coefficient("fixed", 0.08, 0.7, (("scenario", 0.5), ("engine|scenario", 0.5))),
    Coefficient("slow", 1.5, 0.5, (("scenario", 0.6), ("engine|scenario", 0.6), ("family", 0.3)), 5.2),
    Coefficient("burst", 0.1, 0.5, (("scenario", 0.5), ("engine|scenario", 0.5)), 1.0),
)
"""Of first tokens (first_token.py): seconds; a factor; a share. The scenario: whether a pool of its own prefills."""
BY_NAME = {item.name: item for item in COEFFICIENTS}
KNEE = 3.0


class Setting(Protocol):
    """What decides the groups: a case, or a run."""

    @property
    def engine(self) -> str: ...
    @property
    def scenario(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def chip(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class ChipFamily:
    """What of a chip decides the groups, where no record of it is at hand; empty where no chip is meant."""

    family: str = ""


@dataclass(frozen=True, slots=True)
class RunSetting:
    """A setting that is no published case."""

    engine: str
    scenario: str
    precision: str = ""
    chip: ChipFamily = ChipFamily()


def group_of(setting: Setting, level: str) -> str:
    """The group that the setting is in at that level, such as "engine|family=vLLM|hopper"."""
    values = {
        "family": setting.chip.family,
        "engine": setting.engine,
        "precision": setting.precision,
        "scenario": setting.scenario,
    }
    return f"{level}={'|'.join(values[part] for part in level.split('|'))}"


def keys_of(setting: Setting, coefficients: Iterable[Coefficient] = COEFFICIENTS) -> Iterator[tuple[Key, float]]:
    """Every parameter of the setting, with the spread of its prior."""
    for item in coefficients:
        yield (item.name, ""), item.spread
        for level, spread in item.levels:
            yield (item.name, group_of(setting, level)), spread


def values_of(
    setting: Setting, parameters: Mapping[Key, float], coefficients: Iterable[Coefficient] = COEFFICIENTS
) -> dict[str, float]:
    """Each coefficient of one setting, at most its bound. `parameters` are logarithms of factors; one that is not there
    is a factor of 1."""
    by_name = {item.name: item for item in coefficients}
    totals = dict.fromkeys(by_name, 0.0)
    for key, _ in keys_of(setting, by_name.values()):
        totals[key[0]] += parameters.get(key, 0.0)
    return {name: min(item.prior * math.exp(totals[name]), item.most) for name, item in by_name.items()}


@dataclass(frozen=True, slots=True)
class Peaks:
    """A chip's peaks, which coefficients are shares of: floats, or arrays of many chips'."""

    bytes_per_s: Number
    flops_per_s: Number
    wide_flops_per_s: Number
    link_bytes_per_s: Number


def make_speeds(peaks: Peaks, values: Mapping[str, Number]) -> Speeds:
    """Shares of peaks, and overheads, as speeds. `values` lie within their bounds."""
    return Speeds(
        bytes_per_s=peaks.bytes_per_s * values["memory"],
        kv_bytes_per_s=peaks.bytes_per_s * values["kv"],
        flops_per_s=peaks.flops_per_s * values["gemm"],
        expert_flops_per_s=peaks.flops_per_s * values["expert_gemm"],
        head_flops_per_s=peaks.wide_flops_per_s * values["gemm"],
        attention_flops_per_s=peaks.wide_flops_per_s * values["attention"],
        unpack_per_s=peaks.bytes_per_s * values["unpack"],
        link_bytes_per_s=peaks.link_bytes_per_s * values["link"],
        link_latency_s=values["latency_s"],
        layer_s=values["layer_s"],
        expert_layer_s=values["expert_layer_s"],
        step_s=values["step_s"],
        sequence_s=values["sequence_s"],
        token_s=values["token_s"],
        knee=KNEE,
    )
