"""The requests of a run, before any is sent: the same workload and seed give the same plan, on HTTP or virtually.

Requests are numbered through the run, warm-up first. A request depends on its number alone, so every setting that
is compared under one seed meets the same requests, however fast it answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from runners.load.arrivals import arrival_times
from runners.load.lengths import draw_length
from runners.load.planned import FollowUp, Ids, LoadPlan, Phase, PlannedRequest, Users
from runners.load.prompts import PromptSource
from runners.load.seeds import Stream, random_stream
from runners.load.users import ConstantUsers
from runners.runtime.sequence import SamplingParams
from runners.spec import ClosedArrival, OpenArrival, WorkloadSpec


def make_plan(workload: WorkloadSpec, seed: int, prompts: PromptSource) -> LoadPlan:
    """The plan of a workload, whatever its kind."""
    return RequestPlan(workload, seed, prompts)


class RequestPlan:
    """Requests that each stand alone. Implements runners.load.planned.LoadPlan."""

    def __init__(self, workload: WorkloadSpec, seed: int, prompts: PromptSource) -> None:
        self.workload = workload
        self._seed = seed
        self._prompts = prompts
        self._num_warmup = workload.warmup.num_requests

    @property
    def lasts_s(self) -> float | None:
        return self.workload.duration_s

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

    def users(self, phase: Phase) -> Users:
        arrival = self.workload.arrival
        if not isinstance(arrival, ClosedArrival):
            raise ValueError(f"arrival: {arrival.kind} has no users; allowed: closed")
        return ConstantUsers(arrival.max_concurrency)

    def after(self, number: int, output_ids: Ids | None) -> Sequence[FollowUp]:
        return ()

    def abandon(self, number: int) -> None:
        return

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
