"""Figures of systems, checked by hand: two steps on two engines whose energy, links and idling fit on paper."""

from __future__ import annotations

from typing import Any

import pytest
from test_metrics import make_report, make_request, make_spec, make_step

from runners.metric import Metric
from runners.metrics import Summary, summarize
from runners.spec import CostSpec, SloSpec
from runners.system_figures import sum_over_engines, system_figures

POOL = {
    "role": "serve", "engines": 1, "chip": "a", "chips_per_engine": 2, "idle_w": 100.0, "bytes_per_s": 1e12,
    "flops_per_s": 1e15,
}  # fmt: skip
ALONE = {"chips": 2, "pools": [POOL]}
TWO_POOLS = {"chips": 6, "pools": [{**POOL, "role": "prefill"}, {**POOL, "role": "decode", "engines": 2}]}


def step(start_s: float, duration_s: float = 1.0, engine: str | None = None, **changes: Any) -> Any:
    told = {"link_s": 0.25 * duration_s, "energy_j": 400.0 * duration_s, "engine": engine}
    return make_step(0, start_s=start_s, duration_s=duration_s, **{**told, **changes})


def metrics_of(steps: list[Any], system: dict[str, Any] | None = None, **changes: Any) -> dict[str, Metric]:
    """20 requests of 5 tokens in a window of 20 s."""
    facts = {"system": system or ALONE, "usd_per_hour": 7.2}
    report = make_report(facts=facts)
    return summarize([make_request(i) for i in range(20)], steps, report, make_spec(**changes)).metrics


def value(metric: Metric) -> float:
    assert metric.value is not None
    return metric.value


def test_throughput_per_chip_counts_every_chip_of_the_system() -> None:
    assert value(metrics_of([], TWO_POOLS)["output_throughput_per_chip"]) == pytest.approx(100 / 20 / 6)


def test_energy_is_that_of_the_steps_and_of_the_idle_chips_between_them() -> None:
    found = metrics_of([step(0.0, 4.0), step(10.0, 1.0)])
    energy_j = 5 * 400 + 15 * 100
    assert value(found["mean_power"]) == pytest.approx(energy_j / 20)
    assert value(found["energy_per_output_token"]) == pytest.approx(energy_j / 100)
    assert value(found["energy_per_request"]) == pytest.approx(energy_j / 20)
    assert value(found["output_throughput_per_kw"]) == pytest.approx((100 / 20) / (energy_j / 20 / 1000))
    assert found["energy_per_output_token"].unit == "J" and found["mean_power"].unit == "W"


def test_steps_are_cut_at_the_windows_edges() -> None:
    found = metrics_of([step(-1.0, 4.0), step(19.0, 2.0), step(30.0, 5.0)])
    assert value(found["mean_power"]) == pytest.approx((4 * 400 + 16 * 100) / 20)


def test_engines_that_idle_draw_power_too() -> None:
    steps = [step(0.0, 10.0, "prefill-0"), step(0.0, 5.0, "decode-0")]
    found = metrics_of(steps, TWO_POOLS)
    assert value(found["mean_power"]) == pytest.approx((15 * 400 + (10 + 15 + 20) * 100) / 20)


def test_a_useful_answer_is_one_that_met_the_slo() -> None:
    steps = [step(0.0, 20.0)]
    assert metrics_of(steps)["energy_per_useful_answer"].value is None
    assert metrics_of(steps, slo=SloSpec(ttft_s=0.1))["energy_per_useful_answer"].value is None
    assert value(metrics_of(steps, slo=SloSpec(ttft_s=0.3))["energy_per_useful_answer"]) == pytest.approx(8000 / 20)


@pytest.mark.parametrize("system", [{"chips": 2, "pools": [{**POOL, "idle_w": None}]}, {"chips": 1, "pools": []}])
def test_energy_is_not_known_where_a_power_is_not_stated(system: dict[str, Any]) -> None:
    found = metrics_of([step(0.0)], system)
    for name in ("mean_power", "energy_per_output_token", "energy_per_request", "output_throughput_per_kw"):
        assert found[name].value is None


def test_energy_is_not_known_where_a_step_does_not_say_it() -> None:
    assert metrics_of([step(0.0), step(5.0, energy_j=None)])["mean_power"].value is None


def test_a_measured_run_has_one_chip_and_says_nothing_of_links_and_energy() -> None:
    found = summarize([make_request(i) for i in range(20)], [make_step(0)], make_report(), make_spec()).metrics
    assert value(found["output_throughput_per_chip"]) == value(found["output_throughput"])
    assert [found[name].value for name in ("interconnect_tax", "mean_power", "output_tokens_per_usd")] == [None] * 3


def test_the_interconnect_tax_is_the_links_share_of_step_time() -> None:
    steps = [step(0.0, 3.0, link_s=1.5), step(5.0, 1.0, link_s=0.0), step(25.0, 9.0, link_s=9.0)]
    assert value(metrics_of(steps)["interconnect_tax"]) == pytest.approx(1.5 / 4)


def test_several_engines_idle_for_what_is_left_of_all_their_time() -> None:
    steps = [step(0.0, 10.0, "prefill-0"), step(0.0, 5.0, "decode-0"), step(0.0, 15.0, "decode-1")]
    assert value(metrics_of(steps, TWO_POOLS)["idle_share"]) == pytest.approx(1 - 30 / 60)


def test_requests_that_run_and_wait_add_up_over_engines() -> None:
    steps = [
        step(0.0, engine="decode-0", running=4, waiting=2),
        step(1.0, engine="decode-0", running=8, waiting=0),
        step(0.5, engine="decode-1", running=3, waiting=1),
    ]
    found = metrics_of(steps, TWO_POOLS)
    assert (value(found["running"]), value(found["queue_depth"])) == (6 + 3, 1 + 1)
    assert sum_over_engines([], lambda one: one.running) is None


@pytest.mark.parametrize(("asked", "usd_per_hour"), [(None, 7.2), (3.6, 3.6), (0.0, 0.0)])
def test_a_price_that_nobody_states_is_that_of_the_catalog(asked: float | None, usd_per_hour: float) -> None:
    facts = {"system": ALONE, "usd_per_hour": 7.2}
    assert system_figures([], make_report(facts=facts), make_spec(usd_per_hour=asked)).usd_per_hour == usd_per_hour
    cost = metrics_of([], usd_per_hour=asked)["cost_per_million_output_tokens"]
    assert value(cost) == pytest.approx(usd_per_hour / 3600 * 20 / 100 * 1e6)


def test_a_run_without_a_window_has_no_energy() -> None:
    report = make_report(window_start_s=None, window_end_s=None, facts={"system": ALONE})
    figures = system_figures([step(0.0)], report, make_spec())
    assert (figures.energy_j, figures.link_share, figures.chips) == (None, None, 2)


def summary_with(power: dict[str, Any] | None = None, **cost: Any) -> Summary:
    """Of a run whose steps are modelled to take 100 W in all, over 20 s."""
    facts = {"system": ALONE} | ({"power": power} if power is not None else {})
    spec = make_spec(cost=CostSpec(**cost))
    return summarize([make_request(i) for i in range(20)], [], make_report(facts=facts), spec)


METERED = {"source": "rapl", "energy_j": 500.0, "largest_gap_s": 0.3, "samples": 80}


@pytest.mark.parametrize(
    ("power", "cost", "source", "watts"),
    [
        (None, {}, "modelled", 100.0),
        (METERED, {}, "rapl", 25.0),
        (METERED, {"watts": 350.0}, "assumed", 350.0),
        ({"source": None, "unmetered": {"rapl": "not readable"}}, {}, "modelled", 100.0),
    ],
)
def test_power_is_assumed_where_the_document_says_so_else_metered_else_modelled(
    power: dict[str, Any] | None, cost: dict[str, Any], source: str, watts: float
) -> None:
    found = summary_with(power, **cost)
    assert found.energy_source == source and found.as_json()["energy_source"] == source
    assert value(found.metrics["mean_power"]) == pytest.approx(watts)


def test_a_long_gap_between_samples_of_power_makes_a_run_invalid() -> None:
    (reason,) = summary_with(METERED | {"largest_gap_s": 3.5}).reasons
    assert (reason.code, reason.value, reason.threshold) == ("power_gap", 3.5, 3.0)
    assert not summary_with(METERED | {"largest_gap_s": 3.0}).reasons
