"""One engine in virtual time: the steps it is in, and when they end.

A step changes the engine when it begins, and what it gave is told when it ends. Where the batch stays the same, several
steps are timed at once, but each still changes the engine no later than somebody asks for what it changed: so whoever
adds to the engine meanwhile cuts the rest off, and nothing comes out otherwise than step by step. The clock is the
system's; nothing here moves it.
"""

from __future__ import annotations

from bisect import bisect_left

from runners.events import Step
from runners.load.system import Ended
from runners.modelled.executor import ModelledDetail, ModelledExecutor
from runners.modelled.phases import PhaseSums
from runners.runtime.engine import Engine
from runners.runtime.outputs import StepOutput, TokenOutput
from runners.runtime.steady import SteadyPlan

LEAST_AHEAD_S, MOST_AHEAD_STEPS = 0.25, 1024
"""How far steps are timed ahead: twice as far each time, up to about so many, until somebody cuts them."""


class TimedEngine:
    """An engine and what it is in the middle of. `number` is its place in the system; `num_promised_tokens` are of
    requests that are on their way to it; `sums` are what its steps were bound by. With `coalesce` off every step is
    taken for itself."""

    def __init__(self, number: int, engine: Engine, coalesce: bool = True, pool: str | None = None) -> None:
        self.number = number
        self.engine = engine
        self.sums = PhaseSums(engine.config.max_num_seqs, engine.config.max_num_batched_tokens, pool)
        self.num_promised_tokens = 0
        self._coalesce = coalesce
        self._ahead_s = LEAST_AHEAD_S
        self._blocked = False
        self._current: _OneStep | _AlikeSteps | None = None

    @property
    def num_tokens_to_do(self) -> int:
        return self.engine.num_tokens_to_do + self.num_promised_tokens

    def count_prefix(self, prompt_ids: tuple[int, ...]) -> int:
        """Tokens of a prompt that the engine's cache would spare it."""
        return self.engine.count_prefix(prompt_ids)

    @property
    def next_event_s(self) -> float | None:
        return None if self._current is None else self._current.end_s

    def start(self, now_s: float, until_s: float) -> None:
        """Begin a step, if none is going on and there is work; or several alike that begin before `until_s`."""
        if self._current is not None or self._blocked or not self.engine.has_work:
            return
        plan = self.engine.plan_steady(min(until_s, now_s + self._ahead_s)) if self._coalesce else None
        if plan is not None:
            self._current = _AlikeSteps(self.engine, plan, self.sums)
        else:
            self._start_one()

    def _start_one(self) -> None:
        output = self.engine.step()
        if output is None:  # All that waits does so for blocks that another engine is to get first.
            self._blocked = True
            return
        self._current = _OneStep(output)
        executor = self.engine.executor
        assert isinstance(executor, ModelledExecutor) and executor.last_step is not None
        self.sums.add(executor.last_step.parts, output.step)

    def catch_up(self, t_s: float) -> None:
        """Let the engine be as the step leaves it that goes on at `t_s`."""
        if self._current is not None:
            self._current.take(t_s)

    def cut(self, t_s: float) -> None:
        """Let nothing more be settled than the step that goes on at `t_s`: something is to be done with the engine."""
        self._blocked = False
        if self._current is not None and self._current.cut(t_s):
            self._ahead_s = LEAST_AHEAD_S

    def advance(self, t_s: float) -> Ended | None:
        """What came to its end by `t_s`."""
        current = self._current
        if current is None or current.end_s > t_s:
            return None
        self._current = None
        if isinstance(current, _AlikeSteps) and not current.was_cut and current.num_steps < MOST_AHEAD_STEPS:
            self._ahead_s *= 2
        return current.end(self.number)

    def look(self, t_s: float) -> Ended | None:
        """Steps that ended before `t_s`, within what comes to its end later, and were not told yet."""
        if self._current is None:
            return None
        self._current.take(t_s)
        return self._current.tell(self.number, t_s)


class _OneStep:
    """A step for itself."""

    def __init__(self, output: StepOutput) -> None:
        self._output = output
        self.end_s = output.step.start_s + output.step.duration_s

    def take(self, t_s: float) -> None:
        """It was taken when it began."""

    def cut(self, t_s: float) -> bool:
        """Nothing follows it."""
        return False

    def tell(self, number: int, t_s: float) -> None:
        """It ends as a whole."""

    def end(self, number: int) -> Ended:
        tokens: dict[str, int] = {}
        finished = []
        for token in self._output.tokens:
            tokens[token.request_id] = tokens.get(token.request_id, 0) + 1
            if token.finish_reason is not None:
                finished.append(token)
        return Ended(number, (self._output.step,), (self.end_s,), tokens, finished)


class _AlikeSteps:
    """Steps of one batch, timed together. The engine has taken the first ones, and of those some were told."""

    def __init__(self, engine: Engine, plan: SteadyPlan, sums: PhaseSums) -> None:
        self._engine = engine
        self._plan = plan
        self._sums = sums
        self.was_cut = False
        self._starts_s = [start_s for start_s, _, _ in plan.timed]
        self._ends_s = [start_s + duration_s for start_s, duration_s, _ in plan.timed]
        self._untold: list[Step] = []
        self._num_told = 0
        self._tokens: dict[str, int] = {}
        self._finished: tuple[TokenOutput, ...] = ()

    @property
    def num_steps(self) -> int:
        return len(self._ends_s)

    @property
    def end_s(self) -> float:
        return self._ends_s[-1]

    def take(self, t_s: float) -> None:
        # One that would begin at `t_s` itself comes after whatever happens then; the first has begun already.
        self._take(max(bisect_left(self._starts_s, t_s), 1))

    def cut(self, t_s: float) -> bool:
        """Whether steps were left."""
        self.take(t_s)
        num_taken = self._plan.num_taken
        self.was_cut = self.was_cut or num_taken < len(self._ends_s)
        del self._starts_s[num_taken:], self._ends_s[num_taken:]
        return self.was_cut

    def tell(self, number: int, t_s: float) -> Ended | None:
        return self._tell(number, bisect_left(self._ends_s, t_s))

    def end(self, number: int) -> Ended:
        self._take(len(self._ends_s))
        ended = self._tell(number, len(self._ends_s), self._finished)
        assert ended is not None, "the last step is told when it ends"
        return ended

    def _take(self, upto: int) -> None:
        if upto <= self._plan.num_taken:
            return
        output = self._engine.take_steady(self._plan, upto)
        assert self._plan.num_taken == upto, "a modelled token never stops a sequence"
        steps = list(output.events(self._engine.numbers))
        for step, taken in zip(steps, output.steps, strict=True):
            assert isinstance(taken.detail, ModelledDetail) and taken.detail.parts is not None
            self._sums.add(taken.detail.parts, step)
        self._untold.extend(steps)
        self._tokens = self._tokens or dict.fromkeys(output.tokens, 1)
        self._finished = output.finished

    def _tell(self, number: int, upto: int, finished: tuple[TokenOutput, ...] = ()) -> Ended | None:
        first, count = self._num_told, upto - self._num_told
        if count <= 0:
            return None
        steps, ends_s = self._untold[:count], self._ends_s[first:upto]
        del self._untold[:count]
        self._num_told = upto
        before_s = self._ends_s[first - 1] if first else None
        return Ended(number, steps, ends_s, self._tokens, finished, before_s)
