"""Questions as a load: the same for every setting, in the model's chat template, each answer checked in its record."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.load.plan import make_plan
from runners.load.prompts import SyntheticPrompts
from runners.load.task_plan import ChatQuestions, TaskPlan
from runners.load.trace import RequestTrace
from runners.runtime.tokenizer import Tokenizer
from runners.spec import ClosedArrival, WarmupSpec, WorkloadSpec
from runners.spec.workload import TASK_ANSWER_TOKENS, TASK_PROMPT_TOKENS

WORKLOAD = WorkloadSpec(
    kind="tasks",
    arrival=ClosedArrival(kind="closed", max_concurrency=2),
    num_requests=60,
    warmup=WarmupSpec(num_requests=3),
)


@pytest.fixture(scope="module")
def tokenizer(sample_model: Path) -> Tokenizer:
    return Tokenizer.from_path(sample_model)


def plan(tokenizer: Tokenizer, seed: int = 7) -> TaskPlan:
    questions = ChatQuestions(tokenizer, WORKLOAD.tasks, seed)
    return TaskPlan(WORKLOAD, seed, SyntheticPrompts(seed, [1]), questions)


def test_the_same_seed_plans_the_same_questions(tokenizer: Tokenizer) -> None:
    one, again, other = ([r.prompt_ids for r in plan(tokenizer, seed).requests("measured")] for seed in (7, 7, 8))
    assert one == again != other and len(one) == 60


def test_questions_are_asked_in_the_chat_template_and_fit_what_is_reckoned_with(tokenizer: Tokenizer) -> None:
    for request in plan(tokenizer).requests("measured"):
        text = tokenizer.decode(request.prompt_ids, skip_special=False)
        assert text.endswith("<|im_start|>assistant\n")
        assert len(request.prompt_ids) <= TASK_PROMPT_TOKENS and request.params.max_tokens <= TASK_ANSWER_TOKENS
        assert request.params.temperature == 0 and not request.params.ignore_eos


def test_the_measured_questions_are_others_than_the_warm_ups(tokenizer: Tokenizer) -> None:
    made = plan(tokenizer)
    assert [r.number for r in made.requests("warmup")] == [0, 1, 2]
    assert next(iter(made.requests("measured"))).number == 3


@pytest.mark.parametrize(("status", "correct"), [("ok", True), ("cancelled", None), ("timeout", None)])
def test_a_record_says_whether_a_whole_answer_was_right(tokenizer: Tokenizer, status, correct) -> None:
    request = next(iter(plan(tokenizer).requests("measured")))
    _, question = ChatQuestions(tokenizer, WORKLOAD.tasks, 7).question(request.number)
    right = RequestTrace(request, 0.0, 0.0, [0.1], [2], texts=[question.expected[:1], question.expected[1:]])
    wrong = RequestTrace(request, 0.0, 0.0, [0.1], [2], texts=["no idea"])
    assert right.end(1.0, status).correct is correct
    assert wrong.end(1.0, status).correct is (None if correct is None else False)


def test_tasks_are_no_plan_of_a_modelled_load() -> None:
    with pytest.raises(ValueError, match="measured node"):
        make_plan(WORKLOAD, 1, SyntheticPrompts(1, [1]))
