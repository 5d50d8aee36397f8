"""Questions with checked answers as a load: each request asks one, and its record says whether the answer was right.

The same seed and number give the same question, so every setting is asked the same. Answers are greedy and end where
the model ends them. It needs a model's words and answers: nothing of it can be played on a cost model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runners.load.plan import RequestPlan
from runners.load.planned import Ids, Phase, PlannedRequest
from runners.load.prompts import PromptSource
from runners.quality.tasks import TASKS, Question
from runners.runtime.sequence import SamplingParams
from runners.runtime.tokenizer import Tokenizer
from runners.spec import WorkloadSpec
from runners.spec.quality import TaskName


class QuestionSource(Protocol):
    def question(self, number: int) -> tuple[Ids, Question]:
        """The run's question `number` (warm-up first, from 0), and its tokens."""
        ...


@dataclass(frozen=True)
class ChatQuestions:
    """Questions of `tasks` by turns, in the chat template of a model that has one, else as they are."""

    tokenizer: Tokenizer
    tasks: Sequence[TaskName]
    seed: int

    def question(self, number: int) -> tuple[Ids, Question]:
        question = TASKS[self.tasks[number % len(self.tasks)]](self.seed, number)
        if not self.tokenizer.has_chat_template:
            return tuple(self.tokenizer.encode(question.prompt)), question
        text = self.tokenizer.apply_chat_template([{"role": "user", "content": question.prompt}])
        return tuple(self.tokenizer.encode(text, add_special=False)), question


class TaskPlan(RequestPlan):
    """Implements runners.load.planned.LoadPlan."""

    def __init__(self, workload: WorkloadSpec, seed: int, prompts: PromptSource, questions: QuestionSource) -> None:
        super().__init__(workload, seed, prompts)
        self._questions = questions

    def _request(self, number: int) -> PlannedRequest:
        traffic_class = self._draws.traffic_class(number)
        phase: Phase = "warmup" if number < self._num_warmup else "measured"
        prompt_ids, question = self._questions.question(number)
        return PlannedRequest(
            number=number,
            phase=phase,
            request_id=f"{phase}-{number}",
            prompt_ids=prompt_ids,
            params=SamplingParams(max_tokens=question.max_tokens, temperature=0.0),
            priority=traffic_class.priority if traffic_class else 0,
            traffic_class=traffic_class.name if traffic_class else None,
            check=question.check,
        )
