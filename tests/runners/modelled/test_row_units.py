"""Units of published figures: what each counts, and that one of another quantity is refused."""

from __future__ import annotations

import pytest
from published_rows import CHAT, CLOSED, row

from runners.modelled.cases import CaseReader
from runners.modelled.facts import ChipTable
from runners.modelled.model_shapes import ModelShapes
from runners.modelled.row_units import Unit, unit_of
from runners.modelled.rows import CannotPredict, quantity_of

READER = CaseReader(ChipTable.load("catalog"), ModelShapes.load())


@pytest.mark.parametrize(
    ("metric", "unit", "found"),
    [
        ("ttft_mean_ms", "ms", Unit(1e3)),
        ("tpot_p50", "s", Unit(1.0)),
        ("output_throughput_total", "tokens/s", Unit(1.0)),
        ("output_throughput_total", "tok/s/GPU", Unit(1.0, per="chip")),
        ("output_throughput_per_gpu", "tokens/s", Unit(1.0, per="chip")),
        ("output_throughput_total", "tokens/min", Unit(60.0)),
        ("output_throughput_total", "req/s", Unit(1.0, of="request")),
        ("output_throughput_total", "queries/s (value looks like tokens/s)", Unit(1.0)),
        ("total_throughput_per_gpu", "tokens/s/gpu (input+output)", Unit(1.0, per="chip", with_prompt=True)),
        ("decode_tokens_per_s", "tokens/s", Unit(1.0, per="user")),
        ("energy_per_output_token", "J/token (GPU only)", Unit(1.0)),
        ("energy_per_output_token", "mJ/token", Unit(1e3)),
        ("energy_per_request", "J/request", Unit(1.0, of="request")),
    ],
)
def test_a_unit_says_what_is_counted(metric: str, unit: str, found: Unit) -> None:
    assert unit_of(row(1, metric=metric, unit=unit), quantity_of(metric)) == found


@pytest.mark.parametrize(
    ("metric", "unit", "allowed"),
    [
        ("ttft_mean_ms", "tokens/s", "ms, s or us"),
        ("tpot_mean_ms", "fortnights", "ms, s or us"),
        ("output_throughput_total", "ms", "tokens/s"),
        ("output_throughput_total", "tokens/s/MW", "tokens/s"),
        ("prefill_tokens_per_s", "requests/s", "tokens/s"),
        ("energy_per_output_token", "kWh/token", "J/token"),
    ],
)
def test_a_unit_of_something_else_is_refused_with_what_is_allowed(metric: str, unit: str, allowed: str) -> None:
    with pytest.raises(CannotPredict, match=rf"unit: '{unit}' is not one of {metric}; allowed: {allowed}"):
        unit_of(row(1, metric=metric, unit=unit), quantity_of(metric))


def test_the_same_work_in_other_units_differs_by_their_ratio() -> None:
    def scale(item: dict, **fields: object) -> float:
        return READER.read({**item, **fields}).scale

    offline = row(1, n_chips=8, parallelism="TP8")
    assert scale(CLOSED, unit="s") == pytest.approx(scale(CLOSED) / 1000)
    assert scale(offline, unit="tokens/s/gpu") == pytest.approx(scale(offline) / 8)
    assert scale(offline, unit="requests/s") == pytest.approx(scale(offline) / offline["output_len"])
    energy = {**CHAT[0], "metric": "energy_per_output_token", "unit": "J/token"}
    assert scale(energy, unit="J/request") == pytest.approx(scale(energy) * energy["output_len"])
