"""Whatever the requests, their timing, the pool and the limits: outputs are those of a plain, cache-free chain."""

from __future__ import annotations

from dataclasses import replace

from engine_setups import Request, Setup, named, setups, simulate
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference_executor import expected_output

from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams


@settings(max_examples=400, deadline=None)
@given(setup=setups())
def test_every_request_gives_what_it_gives_alone(setup: Setup) -> None:
    outcome = simulate(setup)
    event(f"preemptions: {min(outcome.preempted, 3)}, cache hits: {outcome.cached_tokens > 0}")
    for name, request in named(setup):
        expected = expected_output(request.prompt_ids, request.params)
        if name in outcome.aborted:
            assert outcome.tokens[name] == expected[: len(outcome.tokens[name])]
            continue
        assert outcome.tokens[name] == expected
        stopped = len(expected) < request.params.max_tokens
        assert outcome.reasons[name] == "stop" if stopped else outcome.reasons[name] in ("stop", "length")


@settings(max_examples=100, deadline=None)
@given(setup=setups(), prefix_cache=st.booleans(), budget=st.integers(5, 30))
def test_limits_and_cache_change_when_tokens_come_but_never_which(
    setup: Setup, prefix_cache: bool, budget: int
) -> None:
    patient = replace(setup, requests=[replace(request, aborted_after=None) for request in setup.requests])
    other = SchedulerConfig(max_num_seqs=5, max_num_batched_tokens=budget, prefix_cache=prefix_cache)
    assert simulate(patient).tokens == simulate(replace(patient, config=other)).tokens


def test_the_properties_do_meet_preemption_cache_hits_and_aborts() -> None:
    """One fixed setup that has all three at once, so that the properties above can't pass on empty ground."""
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    prompts = [(1, 0, 1, 1, 0, 0, 1, number % 3) for number in range(8)]
    requests = [
        Request(prompt, params, number % 2, number * 4, 3 if number == 5 else None)
        for number, prompt in enumerate(prompts)
    ]
    outcome = simulate(Setup(7, 4, SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=8), requests))
    assert outcome.preempted > 0
    assert outcome.cached_tokens > 0
    assert outcome.aborted == {"5"}
    assert len(outcome.reasons) == 7
