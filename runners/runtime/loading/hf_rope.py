"""Rotary embeddings from `config.json`: `rope_parameters`, or the older `rope_theta` and `rope_scaling`."""

from __future__ import annotations

from runners.runtime.loading.fields import Fields
from runners.runtime.loading.shape_checks import check_theta
from runners.runtime.models.config import (
    LinearScaling,
    Llama3Scaling,
    RopeConfig,
    RopeScaling,
    YarnScaling,
)
from runners.runtime.models.rope_scaling import yarn_attention_factor

DEFAULT_THETA = 10_000.0


def read_rope(fields: Fields) -> RopeConfig:
    """The one rotary embedding of a model's layers."""
    fields.one_of("partial_rotary_factor", (1, 1.0), 1.0)
    theta = check_theta(fields.path, fields.number("rope_theta", DEFAULT_THETA))
    scaling = fields.inner("rope_scaling")
    parameters = fields.inner("rope_parameters") or scaling
    return RopeConfig(theta) if parameters is None else _from_parameters(parameters, fields, theta)


def read_local_global_ropes(fields: Fields, local: float, far: float) -> tuple[RopeConfig, RopeConfig]:
    """(local, global) embeddings of a model that has two; `local` and `far` are their default thetas."""
    local_theta = check_theta(fields.path, fields.number("rope_local_base_freq", local))
    global_theta = check_theta(fields.path, fields.number("rope_theta", far))
    scaling, parameters = fields.inner("rope_scaling"), fields.inner("rope_parameters")
    if parameters is None:
        scaled = RopeConfig(global_theta) if scaling is None else _from_parameters(scaling, fields, global_theta)
        return RopeConfig(local_theta), scaled
    near, wide = parameters.inner("sliding_attention"), parameters.inner("full_attention")
    parameters.refuse_rest(())
    return (
        RopeConfig(local_theta) if near is None else _from_parameters(near, fields, local_theta),
        RopeConfig(global_theta) if wide is None else _from_parameters(wide, fields, global_theta),
    )


def _from_parameters(parameters: Fields, fields: Fields, theta: float) -> RopeConfig:
    theta = check_theta(fields.path, parameters.number("rope_theta", theta))
    parameters.one_of("partial_rotary_factor", (1, 1.0), 1.0)
    named = "rope_type" if "rope_type" in parameters else "type"
    kind = parameters.one_of(named, ("default", "linear", "llama3", "yarn"), "default")
    parameters.take("type")
    scaling = _scaling(kind, parameters, fields)
    parameters.refuse_rest(("finetuned", *(("original_max_position_embeddings",) if kind == "default" else ())))
    return RopeConfig(theta, scaling)


def _scaling(kind: str, parameters: Fields, fields: Fields) -> RopeScaling | None:
    if kind == "default":
        return None
    factor = parameters.number("factor")
    if kind == "linear":
        return LinearScaling(factor)
    length = fields.optional_size("original_max_position_embeddings") or parameters.size(
        "original_max_position_embeddings", fields.size("max_position_embeddings")
    )
    parameters.take("original_max_position_embeddings")
    if kind == "llama3":
        low, high = parameters.number("low_freq_factor"), parameters.number("high_freq_factor")
        if low >= high:
            raise parameters.error("high_freq_factor", f"more than low_freq_factor, {low}", high)
        return Llama3Scaling(factor, low, high, length)
    return YarnScaling(
        factor,
        length,
        _attention_factor(parameters, factor),
        parameters.number("beta_fast", 32.0),
        parameters.number("beta_slow", 1.0),
        parameters.flag("truncate", True),
    )


def _attention_factor(parameters: Fields, factor: float) -> float:
    given = parameters.optional_number("attention_factor")
    mscale, all_dims = parameters.optional_number("mscale"), parameters.optional_number("mscale_all_dim")
    if given is not None:
        return given
    if mscale and all_dims:
        return yarn_attention_factor(factor, mscale) / yarn_attention_factor(factor, all_dims)
    return yarn_attention_factor(factor)
