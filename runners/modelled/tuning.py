"""What a run's cost model was tuned with: an engine profile's calibration for a chip, and how far it is to be trusted.

A chip whose family published results were fitted on has the calibration of its engine, family and precision. Any other
chip has the values that its record says a calibration would start from, and priors where that is silent; its figures
stay "uncalibrated", as nobody knows their error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from runners.chips import ChipRecord
from runners.modelled.calibration_file import COST_MODEL, Calibration, own_calibration
from runners.modelled.coefficients import ChipFamily, Peaks, RunSetting, make_speeds, values_of
from runners.modelled.facts import DEFAULT_LINK_BYTES_PER_S, DEFAULT_LINK_LATENCY_S, family_of
from runners.modelled.power import UNFITTED, PowerShares, shares_of
from runners.modelled.profiles import ENGINE_PROFILES, overrides_of
from runners.modelled.rows import Quantity
from runners.modelled.work import Speeds

DEFAULT_PROFILE = ENGINE_PROFILES["auto"]
SCENARIO = "steady"
SCHEDULED_ENGINES = (
    "vLLM",
    "SGLang",
    "TensorRT",
    "llama_cpp",
    "pytorch",
    "torch",
    "mlx",
    "unknown",
    "Optimum",
    "NeuronX",
)
"""Engines whose host schedules each step. One that a record names beside them runs a compiled program, and all that it
spends is in the time per layer."""
QUANTITIES: Mapping[str, Quantity] = {"latency": "latency", "rate": "rate", "ttft": "run_ttft", "energy": "energy"}
"""What bounds a run's figures, and the quantity of the calibration whose error that is."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Speeds that the chip reaches; `scope` multiplies a step. `errors` are those of the calibration, by quantity."""

    speeds: Speeds
    scope: float
    profile: str
    family: str
    precision: str
    state: Literal["calibrated", "uncalibrated"]
    fitted_on: str
    errors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    power: PowerShares = UNFITTED

    def facts(self) -> dict[str, Any]:
        """What a result must say of the model that made it."""
        return {
            "calibration": self.state,
            "cost_model": COST_MODEL,
            "engine_profile": self.profile,
            "calibration_scope": {"engine": self.profile, "family": self.family, "precision": self.precision,
                                  "fitted_on": self.fitted_on},
            "calibration_errors": {name: dict(error) for name, error in self.errors.items()},
        }  # fmt: skip


def tune(
    chip: ChipRecord,
    precision: str,
    peaks: Peaks,
    profile: str = DEFAULT_PROFILE,
    calibration: Calibration | None = None,
    computes: str | None = None,
) -> Tuning:
    """The tuning of a chip under an engine profile; without `calibration`, the project's own. `computes` is the format
    of the units that compute, where it is another than `precision`: matrices reach of their rate what that format does,
    unless results of the family were in `precision`. Raises ProfileError."""
    fit, overrides = calibration or own_calibration(), overrides_of(profile)
    family = family_of(chip.chip_id)
    power = shares_of(fit.power, family)
    setting = RunSetting(profile, SCENARIO, precision, ChipFamily(family))
    if ("memory", f"family={family}") in fit.steps and not chip.speculative:
        values = values_of(setting, fit.steps)
        if computes is not None and ("gemm", f"family|precision={family}|{precision}") not in fit.steps:
            other = values_of(RunSetting(profile, SCENARIO, computes, ChipFamily(family)), fit.steps)
            values |= {name: other[name] for name in ("gemm", "expert_gemm")}
        values |= dict(overrides)
        if overrides:  # Nobody has published how far off such an engine is.
            return Tuning(make_speeds(peaks, values), values["scope"], profile, family, precision,
                          "uncalibrated", "the chip's family under other engines; the engine as described",
                          power=power)  # fmt: skip
        errors = {name: fit.error_of(of, profile, family, precision) for name, of in QUANTITIES.items()}
        told = {name: asdict(error) for name, error in errors.items() if error is not None}
        return Tuning(make_speeds(peaks, values), values["scope"], profile, family, precision,
                      "calibrated", _fitted_on(fit, chip, profile, family, precision), told, power)  # fmt: skip
    values = _starting_values(values_of(setting, {}), chip, computes or precision) | dict(overrides)
    return Tuning(make_speeds(peaks, values), 1.0, profile, family, precision, "uncalibrated", "priors of its record",
                  power=power)  # fmt: skip


def link_peaks(chip: ChipRecord) -> tuple[float, float]:
    """Bytes/s and seconds of the chip's link; those of PCIe where its record states none."""
    link = chip.interconnect
    return float(link.bytes_per_s_per_chip or DEFAULT_LINK_BYTES_PER_S), float(link.latency_s or DEFAULT_LINK_LATENCY_S)


def _fitted_on(fit: Calibration, chip: ChipRecord, profile: str, family: str, precision: str) -> str:
    """The narrowest group of published results that covers the setting, in words."""
    chips = fit.provenance.get("chips", ())
    who = f"{chip.chip_id} itself" if chip.chip_id in chips else f"other chips of its family, {family}"
    if ("scope", f"engine|family|precision={profile}|{family}|{precision}") in fit.steps:
        return f"{who}, with {profile} in {precision}"
    if ("layer_s", f"engine|family={profile}|{family}") in fit.steps:
        return f"{who}, with {profile} in other precisions"
    return f"{who}, under other engines"


def _starting_values(values: dict[str, float], chip: ChipRecord, precision: str) -> dict[str, float]:
    """Priors, with what the record says in their place."""
    efficiency = chip.efficiency
    overheads = efficiency.per_layer_overhead_s
    if overheads and not any(name.startswith(SCHEDULED_ENGINES) for name in overheads):
        values = values | dict.fromkeys(("step_s", "expert_layer_s", "sequence_s", "token_s"), 0.0)
    gemm = efficiency.gemm_fraction
    compute = next((share for name, share in gemm.items() if name == precision), None) or next(
        iter(gemm.values()), None
    )
    stated = {
        "memory": efficiency.memory_fraction,
        "kv": efficiency.kv_read_fraction,
        "link": efficiency.link_fraction,
        "latency_s": chip.interconnect.latency_s,
        "gemm": compute,
        "layer_s": overheads.get("vLLM") or next(iter(overheads.values()), None),
    }
    return values | {name: value for name, value in stated.items() if value is not None}
