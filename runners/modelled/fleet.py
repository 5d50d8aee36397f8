"""The engines of one run on one virtual clock: who gets a request, who passes it on to whom, what ends when.

serve               a router gives each request to one of the engines, which does all of it
prefill, decode     a prefill engine computes the prompt and gives the first token; its keys and values go over a
                    link to a decode engine, which gives the rest. The prefill engine keeps its blocks until then,
                    and the decode engine queues what it has no room for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter

from runners.events import MAX_OWNERS, KVBlocks
from runners.load.system import Clock, Ended
from runners.modelled.fleet_engine import TimedEngine
from runners.modelled.fleet_router import Router
from runners.modelled.fleet_transfer import KvLinks
from runners.modelled.phases import PhaseSums
from runners.runtime.engine import Engine
from runners.runtime.outputs import RequestTiming, TokenOutput
from runners.runtime.sequence import ReceivedKV, SamplingParams
from runners.spec import RouterSpec


@dataclass(slots=True)
class _Passed:
    """A request that one engine begins and another ends."""

    prompt_ids: tuple[int, ...]
    params: SamplingParams
    priority: int
    prefill: TimedEngine
    prefilled: RequestTiming | None = None


class Fleet:
    """Implements runners.load.system.System.

    A request that is sent is read first: `reading_s`, many at once, and `intake_s`, one after another. Its engine is
    chosen when it has been read.
    """

    def __init__(
        self,
        clock: Clock,
        engines: Sequence[TimedEngine],
        router: RouterSpec,
        *,
        decode: Sequence[TimedEngine] = (),
        links: KvLinks | None = None,
        reading_s: float = 0.0,
        intake_s: float = 0.0,
    ) -> None:
        """With `decode`, `engines` prefill; all are numbered in the order in which they come here."""
        self.clock = clock
        self._entry, self._decode = tuple(engines), tuple(decode)
        self._engines = self._entry + self._decode
        self._router, self._decode_router = Router(router), Router(_without_prefix(router))
        self.links = links
        self._passed: dict[str, _Passed] = {}
        self.reading_s = reading_s
        self._intake_s, self._read_s = intake_s, 0.0
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def pools(self) -> tuple[tuple[TimedEngine, ...], ...]:
        return (self._entry, self._decode) if self._decode else (self._entry,)

    @property
    def num_engines(self) -> int:
        return len(self._engines)

    @property
    def next_event_s(self) -> float | None:
        times = [engine.next_event_s for engine in self._engines]
        times.append(self._later[0][0] if self._later else None)
        return min((t_s for t_s in times if t_s is not None), default=None)

    def add(self, request_id: str, prompt_ids: tuple[int, ...], params: SamplingParams, priority: int = 0) -> None:
        first = _prompt_alone(params) if self._decode else params
        self._entry[0].engine.check(request_id, prompt_ids, first)
        if first is not params:
            received = ReceivedKV(len(prompt_ids), (0,))
            self._decode[0].engine.check(request_id, prompt_ids, params, received)
        there_s = self.clock.now() + self.reading_s
        if self._intake_s:
            there_s = self._read_s = max(self._read_s, there_s) + self._intake_s
        if there_s > self.clock.now():
            self._do_at(there_s, partial(self._begin, request_id, prompt_ids, params, priority))
        else:
            self._begin(request_id, prompt_ids, params, priority)

    def output_ids(self, params: SamplingParams, num_tokens: int) -> tuple[int, ...] | None:
        return self._entry[0].engine.foretell_output(params, num_tokens)

    def start(self, until_s: float) -> None:
        now_s = self.clock.now()
        for engine in self._engines:
            engine.start(now_s, until_s)

    def advance(self, t_s: float) -> Sequence[Ended]:
        ended = [self._pass_on(done) for engine in self._engines if (done := engine.advance(t_s)) is not None]
        while self._later and self._later[0][0] <= t_s:
            heappop(self._later)[2]()
        return ended

    def look(self, t_s: float) -> Sequence[Ended]:
        return [told for engine in self._engines if (told := engine.look(t_s)) is not None]

    def kv_blocks(self) -> KVBlocks:
        parts = [engine.engine.kv_blocks() for engine in self._engines]
        return parts[0] if len(parts) == 1 else _add_up(parts)

    @property
    def phase_sums(self) -> list[PhaseSums]:
        """What the steps of each engine were bound by."""
        return [engine.sums for engine in self._engines]

    def check_integrity(self) -> None:
        """Raise BlockAccountingError unless every block of every engine is accounted for."""
        for engine in self._engines:
            engine.engine.check_integrity()

    def _do_at(self, t_s: float, what: Callable[[], None]) -> None:
        heappush(self._later, (t_s, next(self._order), what))

    def _begin(self, request_id: str, prompt_ids: tuple[int, ...], params: SamplingParams, priority: int) -> None:
        chosen = self._choose(self._router, self._entry, prompt_ids)
        chosen.cut(self.clock.now())
        first = _prompt_alone(params) if self._decode else params
        if first is not params:
            self._passed[request_id] = _Passed(prompt_ids, params, priority, chosen)
        chosen.engine.add(request_id, prompt_ids, first, priority, keep_kv=first is not params)

    def _choose(self, router: Router, engines: Sequence[TimedEngine], prompt_ids: tuple[int, ...]) -> TimedEngine:
        if len(engines) == 1:
            return engines[0]
        if router.looks:
            for engine in engines:
                engine.catch_up(self.clock.now())
        return router.choose(engines, prompt_ids)

    def _pass_on(self, ended: Ended) -> Ended:
        """What a client sees of it: a request that goes on elsewhere has not finished."""
        if not ended.finished:
            return ended
        finished, sums = [], self._engines[ended.engine].sums
        for token in ended.finished:
            passed = self._passed.get(token.request_id)
            _count_waiting(sums, token.timing, decodes_alone=passed is not None and passed.prefilled is not None)
            if passed is None:
                finished.append(token)
            elif passed.prefilled is None:
                self._send(token, passed)
            else:
                del self._passed[token.request_id]
                timing = _joined(passed.prefilled, token.timing)
                finished.append(TokenOutput(token.request_id, token.token_id, token.finish_reason, timing))
        return replace(ended, finished=finished)

    def _send(self, token: TokenOutput, passed: _Passed) -> None:
        assert token.timing is not None and self.links is not None
        timing = passed.prefilled = token.timing
        assert timing.scheduled_first_s is not None and timing.prefill_done_s is not None
        receiver = self._choose(self._decode_router, self._decode, passed.prompt_ids)
        receiver.num_promised_tokens += passed.params.max_tokens
        there_s = self.links.send(
            passed.prefill.number, receiver.number, len(passed.prompt_ids), timing.scheduled_first_s,
            timing.prefill_done_s,
        )  # fmt: skip
        self._do_at(there_s, partial(self._receive, token, passed, receiver))

    def _receive(self, token: TokenOutput, passed: _Passed, receiver: TimedEngine) -> None:
        now_s = self.clock.now()
        passed.prefill.cut(now_s)
        passed.prefill.engine.release_kv(token.request_id)
        receiver.num_promised_tokens -= passed.params.max_tokens
        receiver.cut(now_s)
        received = ReceivedKV(len(passed.prompt_ids), (token.token_id,))
        receiver.engine.add(token.request_id, passed.prompt_ids, passed.params, passed.priority, received=received)


def one_engine(engine: Engine, clock: Clock, intake_s: float = 0.0) -> Fleet:
    """A system that is this engine; `clock` must be the one that times it."""
    return Fleet(clock, [TimedEngine(0, engine)], RouterSpec(), intake_s=intake_s)


def _without_prefix(router: RouterSpec) -> RouterSpec:
    return router.model_copy(update={"policy": "least_loaded"}) if router.policy == "kv_aware" else router


def _prompt_alone(params: SamplingParams) -> SamplingParams:
    """The same request, ended by its first token; itself where that is its last one anyway."""
    if params.max_tokens == 1:
        return params
    return replace(params, max_tokens=1, min_tokens=min(params.min_tokens, 1))


def _count_waiting(sums: PhaseSums, timing: RequestTiming | None, decodes_alone: bool) -> None:
    """How long a request that has ended in an engine waited there before each phase, and took with that."""
    assert timing is not None and timing.scheduled_first_s is not None and timing.prefill_done_s is not None
    queued_s, finished_s = timing.queued_s, timing.finished_s
    waited_s = timing.scheduled_first_s - queued_s
    if decodes_alone:
        sums.wait("decode", waited_s, finished_s - queued_s)
        return
    sums.wait("prefill", waited_s, timing.prefill_done_s - queued_s)
    sums.wait("decode", 0.0, finished_s - timing.prefill_done_s)


def _joined(prefill: RequestTiming, decode: RequestTiming | None) -> RequestTiming:
    """The times of a request as one: it came, began and had its prompt where it was prefilled."""
    assert decode is not None, "a request's last token has its times"
    return replace(
        prefill,
        finished_s=decode.finished_s,
        preemptions=prefill.preemptions + decode.preemptions,
        draft_tokens=prefill.draft_tokens + decode.draft_tokens,
        accepted_tokens=prefill.accepted_tokens + decode.accepted_tokens,
    )


def _add_up(parts: Iterable[KVBlocks]) -> KVBlocks:
    """Of several engines; a request that two hold blocks of counts with both."""
    owners: dict[str, int] = {}
    others = shared = cached = free = 0
    for part in parts:
        for name, blocks in part.owners.items():
            owners[name] = owners.get(name, 0) + blocks
        others, shared = others + part.others, shared + part.shared
        cached, free = cached + part.cached, free + part.free
    largest = sorted(owners.items(), key=itemgetter(1), reverse=True)
    others += sum(blocks for _, blocks in largest[MAX_OWNERS:])
    return KVBlocks(owners=dict(largest[:MAX_OWNERS]), others=others, shared=shared, cached=cached, free=free)
