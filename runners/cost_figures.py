"""What output cost, in dollars and in joules: from counts, a price and an energy to figures per token and answer. Pure.

The same arithmetic serves a run's own price and power and those that a reader assumes for a view. What was not counted,
priced or metered gives None. A useful answer is one that finished, met its SLO and passed the check of its workload,
where there is either.
"""

from __future__ import annotations

from dataclasses import dataclass

PRICE_UNITS = {
    "output_tokens_per_usd": "tok/$",
    "cost_per_million_output_tokens": "$",
    "cost_per_useful_answer": "$",
}
ENERGY_UNITS = {
    "mean_power": "W",
    "energy_per_output_token": "J",
    "energy_per_million_output_tokens": "J",
    "energy_per_request": "J",
    "energy_per_useful_answer": "J",
    "output_throughput_per_kw": "tok/s/kW",
}


@dataclass(frozen=True)
class Output:
    """What came out of a measured window of `window_s` seconds; `useful` is None where nothing says what is useful."""

    window_s: float | None
    output_tokens: float
    requests: float
    useful: float | None


def price_figures(output: Output, usd_per_hour: float | None) -> dict[str, float | None]:
    """By name, in the units of PRICE_UNITS; `usd_per_hour` is of the whole node or system."""
    usd = None if usd_per_hour is None or not output.window_s else usd_per_hour / 3600 * output.window_s
    per_token = _over(usd, output.output_tokens)
    return {
        "output_tokens_per_usd": _over(output.output_tokens, usd),
        "cost_per_million_output_tokens": None if per_token is None else per_token * 1e6,
        "cost_per_useful_answer": _over(usd, output.useful),
    }


def energy_figures(output: Output, energy_j: float | None) -> dict[str, float | None]:
    """By name, in the units of ENERGY_UNITS; `energy_j` is of the whole window."""
    per_token = _over(energy_j, output.output_tokens)
    # tok/s over kW is tokens over kJ
    per_kilojoule = _over(output.output_tokens, energy_j)
    return {
        "mean_power": _over(energy_j, output.window_s),
        "energy_per_output_token": per_token,
        "energy_per_million_output_tokens": None if per_token is None else per_token * 1e6,
        "energy_per_request": _over(energy_j, output.requests),
        "energy_per_useful_answer": _over(energy_j, output.useful),
        "output_throughput_per_kw": None if per_kilojoule is None else per_kilojoule * 1000,
    }


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None
