"""Requests that follow each other: a person's conversation, an agent's task.

A session's prompts grow: each holds the prompts and answers before it. `rounds` says how: round by round, how many
requests go side by side and how many tokens each adds to the history.
"""

from __future__ import annotations

from pydantic import Field

from runners.spec.base import Document
from runners.spec.lengths import CountSpec, FixedCount, FixedLen, LengthSpec
from runners.spec.pauses import FixedPause, PauseSpec


class ConversationSpec(Document):
    """A person's `turns`, one after another: each prompt holds all before it and `input_len` new tokens, and is sent
    `think_time_s` after the last answer ended."""

    turns: CountSpec = FixedCount(dist="fixed", count=4)
    think_time_s: PauseSpec = FixedPause(dist="fixed", value_s=0.0)


class AgentSpec(Document):
    """A task's `calls` of the model, one after another. The first has `input_len` tokens; after each answer a tool
    takes `tool_time_s`, and the next prompt holds all before it and the tool's result.

    With `fan_out` k each step between the first and the last is k calls side by side, which share what came before and
    each get a result of their own; the next step begins when all have ended, and holds the results and answers of all.
    """

    calls: CountSpec = FixedCount(dist="fixed", count=4)
    tool_time_s: PauseSpec = FixedPause(dist="fixed", value_s=0.0)
    tool_result_tokens: LengthSpec = FixedLen(dist="fixed", tokens=64)
    fan_out: int = Field(default=1, ge=1, le=64)

    def width(self, turn: int, calls: int) -> int:
        """How many calls go side by side in step `turn` (from 1) of a task of so many."""
        return self.fan_out if 1 < turn < calls else 1

    def requests(self, calls: int) -> int:
        """Of a task of so many steps."""
        return calls + max(calls - 2, 0) * (self.fan_out - 1)
