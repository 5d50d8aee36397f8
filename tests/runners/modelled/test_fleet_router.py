"""Which engine gets a request."""

from __future__ import annotations

from dataclasses import dataclass

from runners.modelled.fleet_router import Router
from runners.spec import RouterSpec


@dataclass(frozen=True)
class Standing:
    """An engine as it stands: `cached` tokens of any prompt."""

    name: str
    num_tokens_to_do: int = 0
    cached: int = 0

    def count_prefix(self, prompt_ids: tuple[int, ...]) -> int:
        return min(self.cached, len(prompt_ids))


PROMPT = tuple(range(100))


def choices(policy: str, *engines: Standing, times: int = 1, overlap_weight: float = 1.0) -> list[str]:
    router = Router(RouterSpec.model_validate({"policy": policy, "overlap_weight": overlap_weight}))
    return [router.choose(engines, PROMPT).name for _ in range(times)]


def test_round_robin_takes_each_in_turn_however_they_stand() -> None:
    engines = (Standing("a", 900), Standing("b"), Standing("c", 5, 100))
    assert choices("round_robin", *engines, times=7) == ["a", "b", "c", "a", "b", "c", "a"]


def test_least_loaded_takes_the_one_with_the_fewest_tokens_to_do() -> None:
    assert choices("least_loaded", Standing("a", 30), Standing("b", 20, 0), Standing("c", 40, 100)) == ["b"]


def test_kv_aware_weighs_what_is_not_cached_against_what_is_to_do() -> None:
    near, idle = Standing("near", 60, 80), Standing("idle", 0, 0)
    assert choices("kv_aware", near, idle) == ["near"]  # 20 + 60 against 100
    assert choices("kv_aware", near, idle, overlap_weight=0.5) == ["idle"]  # 10 + 60 against 50
    assert choices("kv_aware", near, idle, overlap_weight=0.0) == ["idle"]


def test_of_equals_the_first_is_taken() -> None:
    equal = (Standing("a", 10), Standing("b", 10))
    assert choices("least_loaded", *equal, times=3) == choices("kv_aware", *equal, times=3) == ["a", "a", "a"]


def test_only_a_router_that_looks_needs_to_know_how_engines_stand() -> None:
    looks = {policy: Router(RouterSpec.model_validate({"policy": policy})).looks
             for policy in ("round_robin", "least_loaded", "kv_aware")}  # fmt: skip
    assert looks == {"round_robin": False, "least_loaded": True, "kv_aware": True}
