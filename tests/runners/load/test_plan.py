"""The plan of a run: the same requests for the same seed, whatever the engine that meets them."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runners.load.plan import RequestPlan
from runners.load.planned import PlannedRequest
from runners.load.prompts import SyntheticPrompts
from runners.spec import WorkloadSpec


def plan(seed: int = 1, **changes: Any) -> RequestPlan:
    fields: dict[str, Any] = {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": 4},
        "input_len": {"dist": "uniform", "min_tokens": 5, "max_tokens": 50},
        "output_len": {"dist": "lognormal", "median_tokens": 20, "sigma": 0.5, "max_tokens": 60},
        "num_requests": 12,
        "warmup": {"num_requests": 3},
        **changes,
    }
    return RequestPlan(WorkloadSpec.model_validate(fields), seed, SyntheticPrompts(seed, range(100)))


def all_requests(made: RequestPlan) -> list[PlannedRequest]:
    return [*made.requests("warmup"), *made.requests("measured")]


@given(st.integers(0, 2**63 - 1))
def test_same_seed_gives_the_same_requests_and_another_seed_others(seed: int) -> None:
    assert all_requests(plan(seed)) == all_requests(plan(seed))
    assert all_requests(plan(seed)) != all_requests(plan(seed + 1))


def test_requests_are_numbered_through_warm_up_and_measured() -> None:
    made = all_requests(plan())
    assert [request.number for request in made] == list(range(15))
    assert [request.phase for request in made] == ["warmup"] * 3 + ["measured"] * 12
    assert len({request.request_id for request in made}) == 15


def test_a_request_does_not_depend_on_how_others_arrive_or_when_the_load_ends() -> None:
    closed = list(plan().requests("measured"))
    opened = plan(arrival={"kind": "open", "request_rate": 3.0}, num_requests=None, duration_s=5.0)
    assert list(itertools.islice(opened.requests("measured"), 12)) == closed


def test_ignored_eos_makes_the_drawn_length_the_least_and_the_most() -> None:
    for request in plan().requests("measured"):
        assert request.params.min_tokens == request.params.max_tokens
        assert request.params.ignore_eos
    free = plan(sampling={"ignore_eos": False, "temperature": 0.7})
    seeds = set()
    for request in free.requests("measured"):
        assert request.params.min_tokens == 0 and not request.params.ignore_eos
        seeds.add(request.params.seed)
    assert len(seeds) == 12


def test_warm_up_and_measured_arrive_by_schedules_of_their_own() -> None:
    opened = plan(arrival={"kind": "open", "request_rate": 3.0})
    warmup, measured = opened.arrivals("warmup"), opened.arrivals("measured")
    assert warmup is not None and measured is not None
    assert list(itertools.islice(warmup, 5)) != list(itertools.islice(measured, 5))
    assert plan().arrivals("measured") is None


def test_a_shared_prefix_stands_before_each_prompts_own_tokens() -> None:
    alone, sharing = plan(), plan(shared_prefix={"groups": 2, "prefix_tokens": 30})
    heads = set()
    for own, request in zip(all_requests(alone), all_requests(sharing), strict=True):
        assert request.prompt_ids[30:] == own.prompt_ids and request.params == own.params
        heads.add(request.prompt_ids[:30])
    assert len(heads) == 2


def test_prefixes_depend_on_the_seed_and_a_requests_group_on_its_number_alone() -> None:
    shared = {"groups": 5, "prefix_tokens": 16}
    few, many = plan(shared_prefix=shared), plan(shared_prefix=shared, num_requests=40, warmup={"num_requests": 0})
    by_number = {request.number: request.prompt_ids[:16] for request in all_requests(many)}
    assert all(by_number[request.number] == request.prompt_ids[:16] for request in all_requests(few))
    assert len(set(by_number.values())) == 5
    assert {request.prompt_ids[:16] for request in all_requests(plan(2, shared_prefix=shared))}.isdisjoint(
        by_number.values()
    )
