"""How a model writes its thoughts and its tool calls: chosen once, from its chat template or by option.

`auto` looks for the format's mark in the template. A template that knows no tools is told of them in the words of
`plain_tools`, which asks for Hermes' format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from runners.runtime.serving.chat_output import ChatOutput
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.reasoning import END, START, ReasoningSplitter
from runners.runtime.serving.tool_calls.call import ToolParser
from runners.runtime.serving.tool_calls.forced import ListedCalls, NamedCall
from runners.runtime.serving.tool_calls.tagged import END as CALL_END
from runners.runtime.serving.tool_calls.tagged import START as CALL_START
from runners.runtime.serving.tool_calls.tagged import TaggedCalls
from runners.runtime.serving.tool_calls.trailing import (
    PYTHON_TAG,
    TOOL_CALLS,
    TrailingCalls,
    read_llama3,
    read_mistral,
)
from runners.runtime.tokenizer import Tokenizer

ToolCallFormat = Literal["none", "hermes", "llama3_json", "mistral"]
ReasoningFormat = Literal["none", "think", "deepseek_r1"]
ToolCallParser = ToolCallFormat | Literal["auto"]
ReasoningParser = ReasoningFormat | Literal["auto"]
TOOL_CALL_PARSERS: tuple[str, ...] = ("auto", *get_args(ToolCallFormat))
REASONING_PARSERS: tuple[str, ...] = ("auto", *get_args(ReasoningFormat))

# The marks by which `auto` knows a format in a template, the most telling first.
TOOL_MARKS: Mapping[str, ToolCallFormat] = {
    CALL_START: "hermes",
    TOOL_CALLS: "mistral",
    PYTHON_TAG: "llama3_json",
    "Environment: ipython": "llama3_json",
}
LOOKS_AT_TOOLS = re.compile(r"\{[{%](?:(?!%\}|\}\}).)*\btools\b", re.DOTALL)
# Marks that a vocabulary may have as control tokens, whose text would be left out.
MARKS = frozenset({START, END, CALL_START, CALL_END, TOOL_CALLS, "[ARGS]", "[CALL_ID]", PYTHON_TAG})


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """`template_takes_tools` says whether the chat template itself tells the model of its tools. `mark_bytes` are the
    marks that are tokens: where they are control tokens, the parsers must see their text all the same."""

    tool_calls: ToolCallFormat
    reasoning: ReasoningFormat
    template_takes_tools: bool
    mark_bytes: Mapping[int, bytes]

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, tool_calls: ToolCallParser = "auto", reasoning: ReasoningParser = "auto"
    ) -> ChatFormat:
        template = tokenizer.chat_template
        marks = {token_id: mark.encode() for mark in MARKS if (token_id := tokenizer.token_id(mark)) is not None}
        return cls(
            tool_calls=_tool_calls(template) if tool_calls == "auto" else tool_calls,
            reasoning=_reasoning(template) if reasoning == "auto" else reasoning,
            template_takes_tools=_takes_tools(template),
            mark_bytes=marks,
        )

    def output(self, body: ChatBody, prompt: str) -> ChatOutput | None:
        """What takes one answer apart; null where its text is its content. Under a structure there is no thought: the
        structure holds from the first token."""
        splitter = None
        if not body.has_structure and self.reasoning != "none":
            opened = self.reasoning == "deepseek_r1" or prompt.rstrip().endswith(START)
            splitter = ReasoningSplitter(opened=opened)
        parser = self._tool_parser(body)
        if splitter is None and parser is None:
            return None
        return ChatOutput(splitter, parser, parallel=body.parallel_tool_calls)

    def _tool_parser(self, body: ChatBody) -> ToolParser | None:
        names = frozenset(tool.function.name for tool in body.tools)
        if body.choice.forced:
            return NamedCall(body.choice.name) if body.choice.kind == "named" else ListedCalls(names)
        if body.choice.kind == "none" or body.has_structure:
            return None
        match self.tool_calls:
            case "hermes":
                return TaggedCalls(names)
            case "mistral":
                return TrailingCalls(names, TOOL_CALLS, read_mistral)
            case "llama3_json":
                return TrailingCalls(names, PYTHON_TAG, read_llama3, bare="{")
        return None


def _tool_calls(template: str) -> ToolCallFormat:
    """Hermes' format where the template knows no tools, as it is what `plain_tools` asks for."""
    found = (known for mark, known in TOOL_MARKS.items() if mark in template)
    return next(found, "none" if _takes_tools(template) else "hermes")


def _takes_tools(template: str) -> bool:
    """Whether some statement or expression looks at `tools`; words in its text or comments say nothing."""
    return LOOKS_AT_TOOLS.search(template) is not None


def _reasoning(template: str) -> ReasoningFormat:
    return "think" if START in template or END in template else "none"
