"""The requests of a recorded trace: its rows in their order, each a request that stands alone.

Blocks that the trace calls equal are equal token ids, and the prompts of a session without such blocks begin alike: a
prefix cache finds what it would have found then. Everything else of a prompt is the row's own. Lengths are clipped to
what the model takes, and counted. The warm-up sends prompts as long as the first rows', but of other tokens. The file
is read as the load goes on, never held whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from runners.load.planned import FollowUp, Ids, LoadPlan, Phase, PlannedRequest, Users
from runners.load.prompts import PromptSource
from runners.load.schedule import arrivals_of, users_of
from runners.load.seeds import Stream, random_stream
from runners.load.users import ConstantUsers
from runners.runtime.sequence import SamplingParams
from runners.spec import RecordedArrival, TraceRef, WorkloadSpec
from runners.traces.clipping import Clipped, clip
from runners.traces.kept_rows import cut_rows, kept_rows
from runners.traces.rows import TraceRow
from runners.traces.values import hashed

SESSION_BLOCK_TOKENS = 512
BLOCKS_HELD = 4096


@dataclass(frozen=True)
class TraceSource:
    """The file of a run's trace, and the tokens that its model takes in all."""

    path: Path
    ref: TraceRef
    max_model_len: int


def replay_facts(plan: LoadPlan) -> dict[str, Any]:
    """What a load says of the trace that it replayed; nothing for any other."""
    return {"trace": plan.facts} if isinstance(plan, TracePlan) else {}


class TracePlan:
    """Implements runners.load.planned.LoadPlan. Reading its rows raises OSError where the file is gone."""

    def __init__(self, workload: WorkloadSpec, seed: int, prompts: PromptSource, source: TraceSource) -> None:
        if workload.trace is None:
            raise ValueError("workload.trace: missing; allowed: the trace of a workload of kind trace")
        self._workload = workload
        self._trace = workload.trace
        self._seed = seed
        self._prompts = prompts
        self._source = source
        self._num_warmup = min(workload.warmup.num_requests, source.ref.extent.requests)
        self._clipped = Clipped()
        self._block = lru_cache(BLOCKS_HELD)(prompts.prefix)

    @property
    def lasts_s(self) -> float | None:
        """None: it ends with its last row."""
        return None

    @property
    def facts(self) -> dict[str, Any]:
        """What was replayed, of the rows that were asked for so far."""
        return self._clipped.as_json()

    def requests(self, phase: Phase) -> Iterator[PlannedRequest]:
        if phase == "warmup":
            rows = islice(self._rows(), self._num_warmup)
            return (self._request("warmup", number, row) for number, row in enumerate(rows))
        return (self._request("measured", number, row) for number, row in enumerate(self._rows(), self._num_warmup))

    def arrivals(self, phase: Phase) -> Iterator[float] | None:
        """When rows were recorded, since the cut's beginning and scaled. The warm-up of a recorded load is a closed one
        of one user, for when its rows come is not known to suit."""
        if not isinstance(self._workload.arrival, RecordedArrival):
            return arrivals_of(self._workload, self._seed, phase)
        if phase == "warmup":
            return None
        return ((row.timestamp_s - self._trace.start_s) * self._trace.time_scale for row in self._rows())

    def users(self, phase: Phase) -> Users:
        if isinstance(self._workload.arrival, RecordedArrival):
            return ConstantUsers(1)
        return users_of(self._workload, phase)

    def after(self, number: int, output_ids: Ids | None) -> Sequence[FollowUp]:
        return ()

    def abandon(self, number: int) -> None:
        return

    def _rows(self) -> Iterator[TraceRow]:
        return cut_rows(kept_rows(self._source.path, self._source.ref.block_tokens), self._trace)

    def _request(self, phase: Phase, number: int, row: TraceRow) -> PlannedRequest:
        input_tokens, output_tokens = clip(row.input_tokens, row.output_tokens, self._source.max_model_len)
        shared = self._shared(row, input_tokens) if phase == "measured" else ()
        if phase == "measured":
            self._clipped.take(row, input_tokens, output_tokens, len(shared))
        return PlannedRequest(
            number=number,
            phase=phase,
            request_id=f"{phase}-{number}",
            prompt_ids=shared + self._prompts.prompt(number, input_tokens - len(shared)),
            params=self._params(number, output_tokens),
            traffic_class=row.traffic_class,
        )

    def _shared(self, row: TraceRow, input_tokens: int) -> Ids:
        """The part of the prompt whose blocks have ids, cut where the prompt was clipped."""
        size = self._source.ref.block_tokens
        blocks: Sequence[int] = row.prefix_ids
        if not blocks and row.session is not None:
            size = SESSION_BLOCK_TOKENS
            blocks = [hashed(f"{row.session}\0{place}") for place in range(-(-input_tokens // size))]
        ids: list[int] = []
        for block in blocks:
            if len(ids) >= input_tokens:
                break
            ids.extend(self._block(block, size))
        return tuple(ids[:input_tokens])

    def _params(self, number: int, output_tokens: int) -> SamplingParams:
        sampling = self._workload.sampling
        return SamplingParams(
            max_tokens=output_tokens,
            min_tokens=output_tokens if sampling.ignore_eos else 0,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=int(random_stream(self._seed, Stream.SAMPLING, number).integers(0, 2**63 - 1)),
            ignore_eos=sampling.ignore_eos,
        )
