"""Puts the tasks' questions to a run's own server, greedily and in its chat template, and counts the right answers.

It speaks OpenAI's chat completions, which any engine serves. A question that gets no answer makes the whole figure
worthless and raises: no answer is not a wrong answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from runners.quality.tasks import Question
from runners.quality_figures import TaskQuality, share

CONCURRENCY = 8
TIMEOUT_S = 300.0
MAX_ERROR_CHARS = 300


class NotAnswered(Exception):
    """The server refused a question, or gave what is no answer of its protocol."""


async def ask_all(
    url: str, model: str, questions: Sequence[Question], progress: Callable[[int, int], object]
) -> dict[str, TaskQuality]:
    """The result of each task. Raises NotAnswered, aiohttp.ClientError, TimeoutError."""
    right: dict[str, list[bool]] = {question.task: [] for question in questions}
    turns, done = asyncio.Semaphore(CONCURRENCY), 0
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)

    async def ask_one(http: aiohttp.ClientSession, question: Question) -> None:
        nonlocal done
        async with turns:
            answer = await _ask(http, url, model, question)
        right[question.task].append(question.check(answer))
        done += 1
        progress(done, len(questions))

    async with aiohttp.ClientSession(timeout=timeout) as http, asyncio.TaskGroup() as group:
        for question in questions:
            group.create_task(ask_one(http, question))
    return {task: _result(found) for task, found in right.items()}


async def _ask(http: aiohttp.ClientSession, url: str, model: str, question: Question) -> str:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question.prompt}],
        "max_tokens": question.max_tokens,
        "temperature": 0,
    }
    async with http.post(f"{url}/v1/chat/completions", json=body) as response:
        if response.status != 200:
            told = (await response.text(errors="replace"))[:MAX_ERROR_CHARS]
            raise NotAnswered(f"the server answered {response.status}: {told}")
        return _content(await response.json(content_type=None))


def _content(answer: Any) -> str:
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise NotAnswered("the server's answer has no choices[0].message.content") from error
    return content if isinstance(content, str) else ""


def _result(found: Sequence[bool]) -> TaskQuality:
    return TaskQuality(asked=len(found), correct=sum(found), accuracy=share(sum(found), len(found)))
