"""Coefficients of the cost model, in levels: of all, then of the engine, the chip's family, and finer groups.

Each is a physical quantity with a prior: a share of a peak, or seconds of overhead. A coefficient of a case is its
global value times the factors of the groups that the case is in; a group that no result was fitted on has factor 1,
which is what falling back to the family, the engine or all chips means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runners.modelled.rows import Case
from runners.modelled.work import Speeds

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """`prior` is the value expected; `spread` how far, as a factor's logarithm, data may move it before it counts
    against the fit; `levels` the groups that may differ, each with its own spread; `most` a bound."""

    name: str
    prior: float
    spread: float
    levels: tuple[tuple[str, float], ...]
    most: float = 1e9


COEFFICIENTS = (
    Coefficient("memory", 0.80, 0.15, (("family", 0.10), ("engine", 0.10), ("engine|family", 0.05)), 1.0),
    Coefficient("kv", 0.60, 0.3, (("family", 0.15), ("engine", 0.3)), 1.0),
    Coefficient(
        "gemm", 0.60, 0.2, (("family", 0.15), ("precision", 0.25), ("family|precision", 0.15), ("engine", 0.15)), 1.0
    ),
    Coefficient("expert_gemm", 0.30, 0.4, (("family", 0.15), ("precision", 0.2), ("engine", 0.2)), 1.0),
    Coefficient("attention", 0.35, 0.4, (("family", 0.2), ("engine", 0.2)), 1.0),
    Coefficient("unpack", 0.5, 0.7, (("family", 0.4),)),
    Coefficient("link", 0.40, 0.4, (("family", 0.3), ("engine", 0.2)), 1.0),
    Coefficient("latency_s", 10e-6, 0.5, (("family", 0.4), ("engine", 0.3))),
    Coefficient("layer_s", 20e-6, 0.7, (("engine", 0.7), ("family", 0.3), ("engine|family", 0.2))),
    Coefficient("expert_layer_s", 40e-6, 0.7, (("engine", 0.6), ("family", 0.3), ("precision", 0.3))),
    Coefficient("step_s", 1e-3, 0.8, (("engine", 0.7),)),
    Coefficient("sequence_s", 15e-6, 0.8, (("engine", 0.7), ("family", 0.3))),
    Coefficient("token_s", 0.3e-6, 0.8, (("engine", 0.5),)),
    Coefficient("scope", 1.0, 0.02, (("scenario", 0.3), ("engine|scenario", 0.1), ("engine|family|precision", 0.10))),
)
BY_NAME = {item.name: item for item in COEFFICIENTS}
KNEE = 3.0


def group_of(case: Case, level: str) -> str:
    """The name of the group that the case is in at that level, such as "vLLM|hopper"."""
    values = {
        "family": case.chip.family,
        "engine": case.engine,
        "precision": case.precision,
        "scenario": case.scenario,
    }
    return "|".join(values[part] for part in level.split("|"))


def keys_of(case: Case) -> Iterator[tuple[str, str, float]]:
    """Every parameter of the case: coefficient, group ("" for the global one), spread of its prior."""
    for item in COEFFICIENTS:
        yield item.name, "", item.spread
        for level, spread in item.levels:
            yield item.name, f"{level}={group_of(case, level)}", spread


@dataclass(frozen=True, slots=True)
class Hardware:
    """Peaks of the chips of cases, as arrays or floats: what coefficients are shares of."""

    bytes_per_s: Array
    flops_per_s: Array
    wide_flops_per_s: Array
    link_bytes_per_s: Array


def hardware_of(cases: Sequence[Case]) -> Hardware:
    return Hardware(
        np.array([case.chip.bytes_per_s for case in cases]),
        np.array([case.rate_flops_per_s for case in cases]),
        np.array([case.wide_flops_per_s for case in cases]),
        np.array([case.chip.link_bytes_per_s for case in cases]),
    )


def make_speeds(hardware: Hardware, values: Mapping[str, Array]) -> Speeds:
    """Shares of peaks, and overheads, as speeds. A share above its bound is taken at its bound."""
    bounded = {name: np.minimum(value, BY_NAME[name].most) for name, value in values.items()}
    return Speeds(
        bytes_per_s=hardware.bytes_per_s * bounded["memory"],
        kv_bytes_per_s=hardware.bytes_per_s * bounded["kv"],
        flops_per_s=hardware.flops_per_s * bounded["gemm"],
        expert_flops_per_s=hardware.flops_per_s * bounded["expert_gemm"],
        head_flops_per_s=hardware.wide_flops_per_s * bounded["gemm"],
        attention_flops_per_s=hardware.wide_flops_per_s * bounded["attention"],
        unpack_per_s=hardware.bytes_per_s * bounded["unpack"],
        link_bytes_per_s=hardware.link_bytes_per_s * bounded["link"],
        link_latency_s=bounded["latency_s"],
        layer_s=bounded["layer_s"],
        expert_layer_s=bounded["expert_layer_s"],
        step_s=bounded["step_s"],
        sequence_s=bounded["sequence_s"],
        token_s=bounded["token_s"],
        knee=KNEE,
    )
