"""Prefixes that come back from host memory or a remote store: hidden behind the step, or waited for."""

from __future__ import annotations

from typing import Any

import pytest
from test_topology import plan

from runners.modelled.clock import VirtualClock
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.step_model import CostModelError
from runners.modelled.tier_loads import tiers_by_name, with_loads
from runners.runtime.sequence import SamplingParams
from runners.runtime.tiers import TierLoad
from runners.spec import EngineSpec

HOST = {"capacity_bytes": 1e12, "bytes_per_s": 50e9, "latency_s": 1e-4}
REMOTE = {"capacity_bytes": 1e13, "bytes_per_s": 5e9, "latency_s": 2e-3}
TOKEN_BYTES = 131_072


def engine_spec(**tiers: Any) -> EngineSpec:
    return EngineSpec.model_validate({"prefix_tiers": tiers, "block_size": 32})


def loaded(seconds: float, *loads: TierLoad) -> tuple[float, float, float | None]:
    """Duration, time waited for the link, and energy added, of a prefill step of that many seconds with those loads."""
    (pool,) = plan("h100-sxm").pools
    tokens = range(round(seconds / 6e-5))

    class Prompt:
        start, token_ids, sample, num_draft_tokens = 0, tokens, True, 0

    step = pool.cost.step([Prompt()])
    found = with_loads(step, loads, tiers_by_name(engine_spec(host=HOST, remote=REMOTE).prefix_tiers), TOKEN_BYTES,
                       pool.idle_w)  # fmt: skip
    assert found.energy_j is not None and step.energy_j is not None
    assert found.parts.total_s == pytest.approx(found.duration_s)
    return found.duration_s - step.duration_s, found.link_s - step.link_s, found.energy_j - step.energy_j


def test_a_load_that_is_shorter_than_the_step_costs_its_latency_alone() -> None:
    waited_s, link_s, energy_j = loaded(0.2, TierLoad("host", 4000))
    assert waited_s == pytest.approx(1e-4) and link_s == pytest.approx(1e-4) and energy_j and energy_j < 1


def test_a_load_that_is_longer_is_waited_for() -> None:
    short_s = loaded(0.03, TierLoad("host", 40_000))[0]
    longer_s = loaded(0.03, TierLoad("host", 80_000))[0]
    assert longer_s - short_s == pytest.approx(40_000 * TOKEN_BYTES / 50e9)


def test_loads_of_a_tier_add_up_and_tiers_come_one_after_another() -> None:
    one = loaded(0.03, TierLoad("host", 40_000), TierLoad("host", 40_000))
    assert one == loaded(0.03, TierLoad("host", 80_000))
    both_s = loaded(0.03, TierLoad("host", 80_000), TierLoad("remote", 8_000))[0]
    assert both_s - one[0] == pytest.approx(8_000 * TOKEN_BYTES / 5e9 + 2e-3)


def test_without_a_load_the_step_is_the_same() -> None:
    assert loaded(0.03) == (0.0, 0.0, 0.0)


def test_a_prefix_that_was_dropped_comes_back_faster_than_it_was_computed_and_says_what_it_loaded() -> None:
    (pool,) = plan("h100-sxm", "llama-3-70b", tensor_parallel=2, longest=4000).pools
    prompts = {name: tuple(range(start, start + 4000)) for start, name in enumerate(("a", "b", "c", "d", "again"))}
    prompts["again"] = prompts["a"]
    seconds: dict[str, dict[str, float]] = {}
    for tiers in ({}, {"host": HOST}):
        spec = engine_spec(**tiers)
        engine = build_engine(ModelledExecutor(pool.cost, pool.kv, 32, VirtualClock()), spec)
        seconds[str(sorted(tiers))] = taken = {}
        for name, prompt in prompts.items():
            engine.add(name, prompt, SamplingParams(max_tokens=1))
            taken[name] = 0.0
            loaded_tokens = 0
            while (output := engine.step()) is not None:
                taken[name] += output.step.duration_s
                loaded_tokens += output.step.loaded_tokens
        # 275 blocks hold two of the prompts.
        assert loaded_tokens == (3968 if tiers else 0)
    without, with_tier = seconds["[]"], seconds["['host']"]
    assert without["again"] == pytest.approx(without["a"])
    assert with_tier["a"] == without["a"] and with_tier["again"] < without["again"] / 5


def test_a_tier_too_small_for_a_block_is_refused_by_its_figure() -> None:
    with pytest.raises(CostModelError, match=r"hold no KV block.*at least 4,194,304 bytes") as raised:
        plan("h100-sxm", engine={"prefix_tiers": {"remote": REMOTE | {"capacity_bytes": 1000}}})
    assert raised.value.field == "engine.prefix_tiers.remote.capacity_bytes"
