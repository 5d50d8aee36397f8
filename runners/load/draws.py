"""What a request of a workload is, drawn for its number alone: its class, its lengths, its prompt, its sampling.

Knows no order and no time. A request of a session takes its class and its prefix by the session's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from runners.load.lengths import draw_length, draw_thinking
from runners.load.planned import Ids
from runners.load.prompts import PromptSource
from runners.load.seeds import Stream, random_stream
from runners.runtime.sequence import SamplingParams
from runners.spec import LengthSpec, TrafficClass, WorkloadSpec


@dataclass(frozen=True, slots=True)
class Output:
    """How an output is to be drawn, thinking and answer together, and how much of it is thinking (None: nothing is
    said of that)."""

    params: SamplingParams
    thinking_tokens: int | None


class Draws:
    """The draws of one run."""

    def __init__(self, workload: WorkloadSpec, seed: int, prompts: PromptSource) -> None:
        self._workload = workload
        self._seed = seed
        self._prompts = prompts
        self._class_bounds = _bounds([one.share for one in workload.classes])

    def rng(self, stream: Stream, index: int) -> np.random.Generator:
        return random_stream(self._seed, stream, index)

    def traffic_class(self, index: int) -> TrafficClass | None:
        """Of a request, or of a session; None where the traffic is of one kind."""
        if not self._workload.classes:
            return None
        drawn = self.rng(Stream.TRAFFIC_CLASS, index).random()
        place = int(np.searchsorted(self._class_bounds, drawn, side="right"))
        return self._workload.classes[min(place, len(self._workload.classes) - 1)]

    def prefix(self, index: int) -> Ids:
        """What a prompt, or all of a session, begins with."""
        shared = self._workload.shared_prefix
        if shared is None:
            return ()
        if shared.share < 1 and self.rng(Stream.PREFIX_SHARE, index).random() >= shared.share:
            return self._prompts.prefix(shared.groups + index, shared.prefix_tokens)
        group = int(self.rng(Stream.PREFIX_GROUP, index).integers(shared.groups))
        return self._prompts.prefix(group, shared.prefix_tokens)

    def own_prompt(self, number: int, traffic_class: TrafficClass | None) -> Ids:
        """New tokens of request `number`, as many as `input_len` has it."""
        spec = traffic_class.input_len if traffic_class else None
        return self._prompts.prompt(number, self._length(spec or self._workload.input_len, Stream.INPUT_LEN, number))

    def tool_result(self, number: int) -> Ids:
        spec = self._workload.agent.tool_result_tokens
        return self._prompts.prompt(number, self._length(spec, Stream.TOOL_RESULT, number))

    def output(self, number: int, traffic_class: TrafficClass | None) -> Output:
        spec = (traffic_class.output_len if traffic_class else None) or self._workload.output_len
        tokens, thinking = self._length(spec, Stream.OUTPUT_LEN, number), None
        if self._workload.thinking is not None:
            thinking = draw_thinking(self._workload.thinking, tokens, self.rng(Stream.THINKING, number))
            tokens += thinking
        sampling = self._workload.sampling
        params = SamplingParams(
            max_tokens=tokens,
            min_tokens=tokens if sampling.ignore_eos else 0,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=int(self.rng(Stream.SAMPLING, number).integers(0, 2**63 - 1)),
            ignore_eos=sampling.ignore_eos,
        )
        return Output(params, thinking)

    def stand_in(self, number: int, tokens: int) -> Ids:
        """What stands in later prompts for an answer of so many tokens whose ids nobody told."""
        return self._prompts.answer(number, tokens)

    def _length(self, spec: LengthSpec, stream: Stream, number: int) -> int:
        return draw_length(spec, self.rng(stream, number))


def _bounds(shares: Sequence[float]) -> np.ndarray:
    """Upper ends of the classes' parts of [0, 1)."""
    return np.cumsum(shares) / sum(shares) if shares else np.empty(0)
