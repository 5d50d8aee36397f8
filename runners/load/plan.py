"""The requests of a run, before any is sent: the same workload and seed give the same plan, on HTTP or virtually.

Requests are numbered through the run, warm-up first. A request depends on its number alone, so every setting that
is compared under one seed meets the same requests, however fast it answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from runners.load.arrivals import arrival_times
from runners.load.lengths import draw_length
from runners.load.prompts import PromptSource
from runners.load.seeds import Stream, random_stream
from runners.runtime.sequence import SamplingParams
from runners.spec import OpenArrival, WorkloadSpec

Phase = Literal["warmup", "measured"]


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """`params.max_tokens` is the drawn output length; with `ignore_eos` it is the least as well."""

    number: int
    phase: Phase
    request_id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams


class RequestPlan:
    """All requests of one run and, in an open loop, when each phase sends them."""

    def __init__(self, workload: WorkloadSpec, seed: int, prompts: PromptSource) -> None:
        self.workload = workload
        self._seed = seed
        self._prompts = prompts
        self._num_warmup = workload.warmup.num_requests

    def requests(self, phase: Phase) -> Iterator[PlannedRequest]:
        """The phase's requests in order; endless where the workload ends by time."""
        if phase == "warmup":
            return map(self._request, range(self._num_warmup))
        count = self.workload.num_requests
        numbers = itertools.count(self._num_warmup)
        return map(self._request, numbers if count is None else itertools.islice(numbers, count))

    def arrivals(self, phase: Phase) -> Iterator[float] | None:
        """Seconds since the phase's start at which an open loop sends; None for a closed one."""
        if not isinstance(self.workload.arrival, OpenArrival):
            return None
        stream = Stream.WARMUP_ARRIVALS if phase == "warmup" else Stream.ARRIVALS
        return arrival_times(self.workload.arrival, random_stream(self._seed, stream))

    def _request(self, number: int) -> PlannedRequest:
        input_len, output_len = self.workload.input_len, self.workload.output_len
        input_tokens = draw_length(input_len, random_stream(self._seed, Stream.INPUT_LEN, number))
        output_tokens = draw_length(output_len, random_stream(self._seed, Stream.OUTPUT_LEN, number))
        sampling_seed = random_stream(self._seed, Stream.SAMPLING, number).integers(0, 2**63 - 1)
        phase: Phase = "warmup" if number < self._num_warmup else "measured"
        sampling = self.workload.sampling
        return PlannedRequest(
            number=number,
            phase=phase,
            request_id=f"{phase}-{number}",
            prompt_ids=self._shared_prefix(number) + self._prompts.prompt(number, input_tokens),
            params=SamplingParams(
                max_tokens=output_tokens,
                min_tokens=output_tokens if sampling.ignore_eos else 0,
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                top_p=sampling.top_p,
                seed=int(sampling_seed),
                ignore_eos=sampling.ignore_eos,
            ),
        )

    def _shared_prefix(self, number: int) -> tuple[int, ...]:
        """What the prompt begins with; its group is drawn for the request alone."""
        shared = self.workload.shared_prefix
        if shared is None:
            return ()
        group = int(random_stream(self._seed, Stream.PREFIX_GROUP, number).integers(shared.groups))
        return self._prompts.prefix(group, shared.prefix_tokens)
