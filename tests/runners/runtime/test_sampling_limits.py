"""Sampling parameters that the engine does not take, and how it says so."""

from __future__ import annotations

import math

import pytest

from runners.runtime.admission import RequestRejected
from runners.runtime.sampling.limits import check_sampling
from runners.runtime.sequence import SamplingParams

REFUSED = [
    ({"temperature": -0.1}, "temperature", "a finite number of at least 0"),
    ({"temperature": math.nan}, "temperature", "a finite number of at least 0"),
    ({"temperature": math.inf}, "temperature", "a finite number of at least 0"),
    ({"top_p": 1.1}, "top_p", "0 to 1"),
    ({"min_p": -0.1}, "min_p", "0 to 1"),
    ({"top_k": -2}, "top_k", "at least 1, or 0 to keep all"),
    ({"repetition_penalty": 0.0}, "repetition_penalty", "0.01 to 100"),
    ({"repetition_penalty": math.nan}, "repetition_penalty", "0.01 to 100"),
    ({"presence_penalty": 2.1}, "presence_penalty", "-2 to 2"),
    ({"frequency_penalty": -2.1}, "frequency_penalty", "-2 to 2"),
    ({"logprobs": 21}, "logprobs", "0 to 20"),
    ({"prompt_logprobs": -1}, "prompt_logprobs", "0 to 20"),
    ({"logit_bias": ((100, 1.0),)}, "logit_bias", "0 to 99"),
    ({"logit_bias": ((-1, 1.0),)}, "logit_bias", "0 to 99"),
    ({"logit_bias": ((1, 100.5),)}, "logit_bias", "-100 to 100"),
    ({"logit_bias": ((1, math.inf),)}, "logit_bias", "-100 to 100"),
    ({"logit_bias": tuple((1, 0.0) for _ in range(301))}, "logit_bias", "at most 300"),
    ({"bad_token_ids": ((),)}, "bad_words", "1 to 64"),
    ({"bad_token_ids": ((1,) * 65,)}, "bad_words", "1 to 64"),
    ({"bad_token_ids": ((1, 100),)}, "bad_words", "0 to 99"),
    ({"bad_token_ids": ((1,),) * 129}, "bad_words", "at most 128"),
    ({"stop_token_ids": (100,)}, "stop_token_ids", "0 to 99"),
]


@pytest.mark.parametrize(("fields", "name", "allowed"), REFUSED, ids=[f"{r[1]}-{i}" for i, r in enumerate(REFUSED)])
def test_a_value_out_of_range_is_refused_by_its_name(fields: dict[str, object], name: str, allowed: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        check_sampling(SamplingParams(**fields), vocab_size=100)  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.allowed) == (name, allowed)


def test_the_ends_of_every_range_are_taken() -> None:
    check_sampling(SamplingParams(), vocab_size=100)
    check_sampling(
        SamplingParams(
            temperature=2.0,
            top_p=1.0,
            min_p=1.0,
            repetition_penalty=100.0,
            presence_penalty=-2.0,
            frequency_penalty=2.0,
            logprobs=20,
            prompt_logprobs=0,
            logit_bias=tuple((token % 100, -100.0) for token in range(300)),
            bad_token_ids=((99,) * 64,) * 128,
            stop_token_ids=(0, 99),
        ),
        vocab_size=100,
    )
