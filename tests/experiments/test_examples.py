"""The shipped examples: each is whole, each can run on a node of its kind, and each modelled one shows what
its text says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from example_runs import CATALOG, FOLDER, MODELLED, NAMES, Result, find_cell, measure, plan, play, run_spec

from experiments.measured_limits import measured_limits
from runners.chips import record_for_run
from runners.modelled.topology import plan_system
from runners.spec import Setting

Settings = dict[str, Setting]

OFFERED = 1024
"""Chips of each kind that the lab's own modelled node has."""
MAX_WORDS = 250


def words(name: str) -> list[str]:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8").splitlines()


def test_examples_are_numbered_and_each_has_its_text() -> None:
    numbers = [name[:2] for name in NAMES]
    assert numbers[:11] == [f"{number:02}" for number in range(1, 12)] and len(set(numbers)) == len(numbers)
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_text_has_a_title_and_says_what_to_look_for_and_where_it_ends(name: str) -> None:
    lines = words(name)
    assert lines[0].startswith("# ") and lines[1] == ""
    text = "\n".join(lines)
    for part in ("**Set-up.**", "**What to look for.**", "**What would change the answer.**", "**Limits.**"):
        assert text.count(part) == 1, part
    assert len(text.split()) <= MAX_WORDS


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_found_by_its_tags_and_asks_for_any_node_of_its_kind(name: str) -> None:
    spec = plan(name).spec
    assert "example" in spec.tags and any(tag.startswith("example-") for tag in spec.tags)
    kind = "modelled" if name in MODELLED else "measured"
    assert spec.nodes.labels == {"kind": kind} and not spec.nodes.names
    assert spec.name.startswith(f"Example {int(name[:2])}: ") and spec.question


@pytest.mark.parametrize("name", MODELLED)
def test_every_cell_of_an_example_has_a_system_that_the_labs_own_node_offers(name: str) -> None:
    for cell in plan(name).cells:
        counts = plan_system(run_spec(cell, seed=1)).chip_counts
        assert counts and max(counts.values()) <= OFFERED, cell.settings


@pytest.mark.parametrize("name", MODELLED)
def test_only_examples_that_say_so_use_chips_that_are_not_disclosed(name: str) -> None:
    for cell in plan(name).cells:
        spec = run_spec(cell, seed=1)
        speculative = [chip for chip in spec.chips if record_for_run(CATALOG[chip], spec.allow_speculative).speculative]
        assert bool(speculative) <= spec.allow_speculative


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(MODELLED)))
def test_a_measured_node_takes_every_cell_of_a_measured_example(name: str) -> None:
    assert not [fault for cell in plan(name).cells for fault in measured_limits(cell.spec)]


def check_valid(*results: Result) -> None:
    """Valid, or invalid for nothing but its chips."""
    for result in results:
        codes = {reason.code for reason in result.summary.reasons}
        assert codes <= {"speculative_chip"}, (result.spec.settings, codes)
        assert result.summary.modelled and result.value("output_throughput") > 0


@pytest.mark.parametrize("name", MODELLED)
def test_a_run_of_an_example_is_valid_but_for_chips_that_are_not_disclosed(name: str) -> None:
    shorter: dict[str, Any] = {"num_requests": 24}
    if shared := plan(name).spec.workload.shared_prefix:
        tokens = min(shared.prefix_tokens, 20_000)
        shorter |= {"shared_prefix": {"groups": 2, "prefix_tokens": tokens}, "warmup": {"num_requests": 8}}
    check_valid(play(run_spec(plan(name).cells[0], seed=3, **shorter)))


def users(number: int) -> Settings:
    return {"workload.arrival.max_concurrency": number}


def test_1_more_users_give_each_chip_more_throughput_and_each_user_less_speed() -> None:
    few, many = (
        measure("01-twelve-chips", {"chip": "h100-sxm", **users(number)}, num_requests=6 * number) for number in (4, 64)
    )
    check_valid(few, many)
    assert many.value("output_throughput_per_chip") > 3 * few.value("output_throughput_per_chip")
    assert many.value("interactivity") < few.value("interactivity")


def test_1_how_far_one_chip_is_ahead_depends_on_what_is_divided_by() -> None:
    mi355x, gb300 = (
        measure("01-twelve-chips", {"chip": chip, **users(16)}, num_requests=48) for chip in ("mi355x", "gb300")
    )

    def lead(metric: str) -> float:
        return mi355x.value(metric) / gb300.value(metric)

    assert lead("output_tokens_per_usd") > 1.3 * lead("output_throughput_per_chip")
    assert lead("output_throughput_per_kw") != pytest.approx(lead("output_throughput_per_chip"), rel=0.01)


def test_2_a_pool_for_prompts_smooths_answers_and_delays_first_tokens() -> None:
    together, apart = (
        measure(
            "02-prefill-here-decode-there",
            {"chip": "h100-sxm", "placement.disaggregate.kind": kind, "workload.arrival.request_rate": 4.0},
            num_requests=96,
        )
        for kind in ("none", "prefill_decode")
    )
    check_valid(together, apart)
    tail = [result.summary.metrics["itl"].percentiles["p99"].value for result in (together, apart)]
    assert tail[1] < tail[0] / 3
    assert apart.value("ttft") > together.value("ttft")
    assert apart.value("output_throughput") > 0.9 * together.value("output_throughput")


def test_2_a_wafer_needs_the_pool_only_under_load() -> None:
    def stutter(kind: str, rate: float) -> float:
        settings: Settings = {
            "chip": "wse3",
            "placement.disaggregate.kind": kind,
            "workload.arrival.request_rate": rate,
        }
        result = measure("02-prefill-here-decode-there", settings, num_requests=48)
        return result.value("tpot")

    assert stutter("none", 4.0) < 1.1 * stutter("prefill_decode", 4.0)
    assert stutter("none", 80.0) > 1.5 * stutter("prefill_decode", 80.0)


def test_3_racks_for_experts_lose_for_two_users_lead_for_many_and_never_pay_per_chip() -> None:
    def gain(number: int, metric: str) -> float:
        alone, pair = (
            measure(
                "03-attention-and-experts",
                {"placement.disaggregate.kind": kind, "placement.tensor_parallel": 4, **users(number)},
                num_requests=4 * number if number > 8 else 20,
            )
            for kind in ("none", "attention_ffn")
        )
        return pair.value(metric) / alone.value(metric)

    assert gain(2, "interactivity") < 1 < 1.4 < gain(64, "interactivity")
    assert gain(64, "output_throughput_per_chip") < 0.1


def test_4_four_bits_win_where_the_chip_multiplies_in_them_and_less_where_it_only_stores_them() -> None:
    def gain(chip: str, number: int) -> float:
        eight, four = (
            measure(
                "04-fp8-to-nvfp4",
                {"chip": chip, "engine.weights": weights, **users(number)},
                num_requests=2 * number,
            )
            for weights in ("fp8", "nvfp4")
        )
        return four.value("output_throughput_per_chip") / eight.value("output_throughput_per_chip")

    assert 1.15 < gain("b200-sxm", 32) < 3
    assert gain("h200-sxm", 256) < 1.1 < gain("b200-sxm", 256)


def test_5_twice_the_weights_in_half_the_bits_cost_little_only_with_units_for_them() -> None:
    def share(chip: str) -> float:
        small, large = (
            measure(
                "05-bits-or-parameters",
                {"chip": chip, "model.shape.layers": layers, "engine.weights": weights, **users(128)},
                num_requests=256,
            )
            for layers, weights in ((40, "fp8"), (80, "nvfp4"))
        )
        sizes = [result.report.facts["weight_bytes"] for result in (small, large)]
        assert sizes[1] == pytest.approx(sizes[0], rel=0.15)
        return large.value("output_throughput") / small.value("output_throughput")

    assert share("h100-sxm") < 0.7 < share("b200-sxm") < 1


def test_6_a_format_without_units_costs_more_the_more_users_there_are_and_the_chips_own_brings_speed_back() -> None:
    def speed(chip: str, weights: str, number: int) -> float:
        settings: Settings = {"chip": chip, "engine.weights": weights, **users(number)}
        return measure("06-moving-to-another-chip", settings, num_requests=2 * number + 20).value("output_throughput")

    few, many = (speed("tpu-v6e", "fp8", number) / speed("h100-sxm", "fp8", number) for number in (4, 64))
    assert many < few < 1
    assert speed("tpu-v6e", "int8", 64) > 1.3 * speed("tpu-v6e", "fp8", 64)
    assert speed("trainium2", "int8", 64) < speed("trainium2", "fp8", 64)


def test_7_a_rack_loses_its_lead_over_wafers_as_hops_take_longer() -> None:
    def speed(chip: str, latency_s: float) -> float:
        settings: Settings = {"chip": chip, "placement.link.latency_s": latency_s}
        result = measure("07-hop-latency", settings)
        check_valid(result)
        return result.value("interactivity")

    assert speed("groq3-lpu", 0.5e-6) > speed("wse3", 0.5e-6)
    assert speed("groq3-lpu", 16e-6) < speed("wse3", 16e-6) / 3
    assert speed("wse3", 16e-6) > 0.85 * speed("wse3", 0.5e-6)


def document_load(**changes: Any) -> dict[str, Any]:
    prefix = {"groups": 1, "prefix_tokens": 1_000_000}
    return {"shared_prefix": prefix, "num_requests": 2, "warmup": {"num_requests": 1}} | changes


def test_8_b200s_hold_some_documents_and_dram_all_of_them() -> None:
    prefix = plan("08-million-token-contexts").spec.workload.shared_prefix
    assert prefix is not None

    def documents(chip: str, spilled: float) -> float:
        settings: Settings = {"chip": chip, "engine.prefix_tiers.host.capacity_bytes": spilled}
        found = find_cell("08-million-token-contexts", settings)
        (pool,) = plan_system(run_spec(found, seed=1)).pools
        return pool.kv.num_blocks * found.spec.engine.block_size / 1_000_256

    assert 2 < documents("b200-sxm", 1e9) < prefix.groups < documents("majestic-prometheus", 1e9)


def test_8_a_document_that_is_kept_is_answered_a_hundred_times_sooner_than_one_that_is_computed_again() -> None:
    settings: Settings = {"chip": "b200-sxm", "engine.prefix_tiers.host.capacity_bytes": 1e9}
    kept = measure("08-million-token-contexts", settings, **document_load())
    computed = measure("08-million-token-contexts", settings, **document_load(warmup={"num_requests": 0}))
    assert computed.value("ttft") > 100 * kept.value("ttft")
    assert kept.value("cache_hit_rate") > 0.99


def test_8_dram_gives_a_first_token_soon_and_further_ones_slower_than_hbm() -> None:
    def kept(chip: str) -> Result:
        settings: Settings = {"chip": chip, "engine.prefix_tiers.host.capacity_bytes": 1e9}
        return measure("08-million-token-contexts", settings, **document_load())

    hbm, dram = kept("b200-sxm"), kept("majestic-prometheus")
    assert dram.value("ttft") < 5
    assert dram.value("tpot") > hbm.value("tpot")
    assert dram.report.facts["speculative"]["low_x"] < 1


def test_9_what_a_width_costs_depends_on_the_chips_waves_and_on_the_cut() -> None:
    def first_token_s(hidden_size: int, ffn: int = 11008, chip: str = "h100-sxm", chips: int = 1) -> float:
        settings: Settings = {"chip": chip, "model.shape.hidden_size": hidden_size, "model.shape.ffn": ffn}
        settings["placement.tensor_parallel"] = chips
        return measure("09-aligned-dimensions", settings, num_requests=20).value("ttft")

    def steps(chip: str) -> tuple[float, float]:
        narrow, middle, wide = (first_token_s(hidden_size, chip=chip) for hidden_size in (4096, 4224, 4352))
        return middle / narrow - 1, wide / middle - 1

    def wider_mlp(chips: int) -> float:
        return first_token_s(4096, 11264, chips=chips) / first_token_s(4096, chips=chips) - 1

    within, beyond = steps("h100-sxm")
    assert 0 < 2 * within < beyond
    one, other = steps("mi300x")
    assert other == pytest.approx(one, rel=0.1)
    assert wider_mlp(8) < 0.5 * wider_mlp(1)


def test_10_amds_speed_is_near_for_few_users_and_its_cost_below_but_not_half() -> None:
    mi355x, b200 = (
        measure("10-speed-for-the-price", {"chip": chip, "model": "glm-5", **users(16)}, num_requests=64)
        for chip in ("mi355x", "b200-sxm")
    )
    check_valid(mi355x, b200)
    assert 0.75 < mi355x.value("output_throughput") / b200.value("output_throughput") < 1.1
    cost = mi355x.value("cost_per_million_output_tokens") / b200.value("cost_per_million_output_tokens")
    assert 0.55 < cost < 0.97


def test_11_bandwidth_and_bits_count_only_once_the_engine_is_out_of_the_way() -> None:
    def speed(profile: str, chips: int, kind: str = "none") -> float:
        settings: Settings = {"engine.profile": profile, "placement.tensor_parallel": chips, "engine.weights": "bf16",
                    "engine.speculation.kind": kind}  # fmt: skip
        result = measure("11-single-stream-speed", settings, num_requests=20)
        check_valid(result)
        return result.value("interactivity")

    assert speed("vllm", 8) < 1.5 * speed("vllm", 1)
    assert speed("kog", 8) > 3 * speed("kog", 1)
    assert speed("kog", 8) > 2000 > speed("kog", 1)
    assert speed("vllm", 1, "ngram") > 1.5 * speed("vllm", 1)


LADDER = "15-one-technique-on-another"


def test_15_three_steps_carry_the_throughput_and_chunked_prefill_the_pauses() -> None:
    cells = {cell.label: cell for cell in plan(LADDER).cells}
    rungs = {label: play(run_spec(cell, plan(LADDER).runs[0].seed)) for label, cell in cells.items()}
    check_valid(*rungs.values())
    speed = [rungs[label].value("output_throughput") for label in cells]
    gains = [later / earlier for earlier, later in pairwise(speed)]
    assert all(gain > 1.2 for gain in gains[:3])
    assert gains[3] == pytest.approx(1, abs=0.03)
    assert 1.01 < gains[4] < 1.2

    def pause(label: str) -> float:
        return rungs[label].summary.metrics["itl"].percentiles["p95"].value

    assert pause("chunked prefill") < pause("n-gram speculation") / 2
    assert rungs["chunked prefill"].value("ttft") > rungs["n-gram speculation"].value("ttft")
    assert rungs["KV-aware routing"].value("cache_hit_rate") > rungs["chunked prefill"].value("cache_hit_rate")
