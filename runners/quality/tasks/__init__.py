"""Tasks with checked answers, of the project's own making: the same seed and number give the same question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from runners.quality.tasks.arithmetic import arithmetic_question
from runners.quality.tasks.json_schema import json_schema_question
from runners.quality.tasks.multiple_choice import multiple_choice_question
from runners.quality.tasks.question import Question
from runners.spec.quality import TaskName

__all__ = ["TASKS", "Question", "questions"]

TASKS: Mapping[TaskName, Callable[[int, int], Question]] = {
    "arithmetic": arithmetic_question,
    "multiple_choice": multiple_choice_question,
    "json_schema": json_schema_question,
}


def questions(tasks: Sequence[TaskName], seed: int, count: int) -> list[Question]:
    """`count` questions of each task, by turns."""
    return [TASKS[task](seed, number) for number in range(count) for task in tasks]
